"""What guarantees assume, in words for the people who answer for the data."""

# A guarantee with no ``assumptions`` always holds.
IDEAL_NOISE = "the noise is made of ideal real numbers, not of floating-point numbers"
KEY_SECRET = "the key that was passed in is secret and is used only once"
PUBLIC_CONFIG = (
    "all settings, the number of users, and the types and shapes of arrays were chosen without the users' data"
)
SEPARABLE_LOSSES = "each user's loss is computed from that user's record alone"
SEPARABLE_GAINS = "each user's gain is computed from that user's record alone"
OWN_ROWS = "row i of the data was made from record i and public values alone, and everything declared public is public"
PUBLIC_RECORDS = (
    "the public records that propose points are not protected here, and were made without the users' records"
)
COMPILED_APART = "XLA compiles a program that keeps users apart to code that keeps them apart, to the last bit"
ONE_ROW = "each protected row is one user, and no user has two of these rows"
ROW_OWNERS = "the owner of each row, and the number of rows of each user, are public"
BLOCKS_APART = "a block's loss depends on its own rows and public values alone: its learner keeps nothing between calls"
RUN_COST = "one run, including its score, costs these rows no more than stated for one run"
STAGE_COSTS = "each stage costs these rows no more than stated, for all outputs of the stages before it"
POISSON_BATCHES = (
    "every batch includes each row independently with the stated probability, and nobody learns which rows it includes"
)
FOREIGN_DRAWS = "nobody can distinguish the training library's random draws from ideal ones, or guess their seed"
EXACT_MINIMISER = "the training finds the exact minimiser of its noised objective"
RUNS_UNKNOWN = "nobody learns the number of runs, from running time or otherwise"
LOSERS_UNKNOWN = "nobody learns the settings of runs that were not released, from running time or otherwise"
FAILS_BY_NOISE = "failure and stopping of a run depend only on its noised values"
ROWS_APART = "no row is used for both training and validation"
PREDICTED_APART = "the prediction for a record does not depend on the other records that are predicted with it"
SPLIT_UNSEEN = "the split into training and validation records was made without looking at any record"
RANDOM_BITS = "nobody can distinguish the output of the ChaCha20 generator from random bits"
UNCHECKED = "the file that this guarantee was read from is correct, which nobody checked here"
WIRE = "nobody reads the messages between the processes of a run, or their files: keys, rows, and sums without noise"
SAME_ROWS = "a part of the table holds the same rows each time that the engine computes the part"
MASKS = (
    "nobody breaks X25519, Ed25519, SHA-256 or ChaCha20, and the roster holds the silos' own keys, known to nobody else"
)
ONE_SILO = "each user is in one silo alone, and the silos follow the agreed terms"
ONE_ID = "each person has one id: a person who is replaced by another with another id counts as two users"
SAME_USERS = "each row that the run protects is one user of the ledger, and no user has two of these rows"
WEAK_KEY = "nobody guesses the key or inverts its generator, which has no security claim"
# Of DP-GP-UCB.
GAUSSIAN_PROCESS = "the utilities of all data sets are one draw of the stated Gaussian process (Assumption 1)"
GAUSSIAN_NOISE = "each utility is observed with independent Gaussian noise of the stated variance"
EXACT_UTILITY = "each utility is observed without noise"
BEST_QUERIES = "every query maximises the upper confidence bound over the box"
COMPUTED_MEAN = "the computed posterior mean is within 0.05 prior standard deviations of the exact one"
EXACT_TRAINING = (
    "w is the exact minimiser of lambda |w|^2 / 2 + a convex loss on public records, lambda is the candidate itself, "
    "and gains and losses are Lipschitz in w as stated"
)

PAGE = "docs/assumptions.md"  # the consequences of a false assumption, and who can check it
SECTIONS = {
    IDEAL_NOISE: "ideal-noise", KEY_SECRET: "key-secret", PUBLIC_CONFIG: "public-configuration",
    SEPARABLE_LOSSES: "separable-losses", SEPARABLE_GAINS: "separable-gains", OWN_ROWS: "own-rows",
    COMPILED_APART: "compiled-apart", ONE_ROW: "one-row", ROW_OWNERS: "row-owners", BLOCKS_APART: "blocks-apart",
    PREDICTED_APART: "predicted-apart", PUBLIC_RECORDS: "public-records",
    **dict.fromkeys((RUN_COST, RUNS_UNKNOWN, LOSERS_UNKNOWN, FAILS_BY_NOISE, ROWS_APART), "private-selection"),
    STAGE_COSTS: "stage-costs", POISSON_BATCHES: "poisson-batches", FOREIGN_DRAWS: "foreign-draws",
    EXACT_MINIMISER: "exact-minimiser",
    SPLIT_UNSEEN: "split-unseen", RANDOM_BITS: "key-generator", UNCHECKED: "unchecked", WEAK_KEY: "weak-key",
    SAME_USERS: "same-users", ONE_ID: "one-id", MASKS: "masks-of-silos", ONE_SILO: "one-silo",
    WIRE: "private-wire", SAME_ROWS: "same-rows",
    **dict.fromkeys((GAUSSIAN_PROCESS, GAUSSIAN_NOISE, EXACT_UTILITY, BEST_QUERIES), "gaussian-process"),
    COMPUTED_MEAN: "computed-mean", EXACT_TRAINING: "exact-training",
}  # fmt: skip
