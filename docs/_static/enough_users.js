// The page "Enough users?": looks up a cell of the table that `scripts/bench enough_users` made from `preview`.
// The address keeps the setting, as in enough_users.html#users=5000&epsilon=1, so that a reader can share it.
(() => {
  const { axes, fields, cells } = JSON.parse(document.getElementById("users-table").textContent);
  const form = document.getElementById("users-form");
  const names = Object.keys(axes);
  const start = { space: "5 numbers", epsilon: 1, delta: 1e-5, evaluations: 100, users: 5000 };

  const text = (value) => (typeof value === "number" ? value.toLocaleString("en-US", { maximumSignificantDigits: 3 }) : value);
  const exponent = (value) => (value < 0.001 ? value.toExponential() : text(value));

  for (const name of names.filter((name) => name !== "users")) {
    form.elements[name].replaceChildren(...axes[name].map((value, place) => new Option(exponent(value), place)));
  }
  form.elements.users.max = axes.users.length - 1;

  const same = (choice, value) => (typeof choice === "number" ? value !== null && choice === Number(value) : choice === value);

  function restore() {
    const params = new URLSearchParams(location.hash.slice(1));
    for (const name of names) {
      const wanted = [params.get(name), start[name]].map((value) => axes[name].findIndex((choice) => same(choice, value)));
      form.elements[name].value = wanted.find((place) => place >= 0);
    }
    show();
  }

  function show() {
    const places = names.map((name) => Number(form.elements[name].value));
    const values = Object.fromEntries(names.map((name, number) => [name, axes[name][places[number]]]));
    const row = places.reduce((sum, place, number) => sum * axes[names[number]].length + place, 0);
    const cell = Object.fromEntries(cells[row].split("|").map((value, number) => [fields[number], value]));
    form.elements["users-label"].value = text(values.users);
    form.querySelector(".answer").replaceChildren(...(cells[row] ? answer(values, cell) : [tooLarge(values)]).map(item));
    form.querySelector(".check").textContent = cells[row] ? check(values, cell) : "";
    return values;
  }

  function answer(values, cell) {
    const noise = cell["step noise"]
      ? `The noise of a step is ${cell["step noise"]} times the largest mean gradient that clipping permits` +
        (cell["loss noise, %"] ? `; in the loss it is ${cell["loss noise, %"]} % of the loss range.` : ".")
      : `Noise raises the loss of the chosen setting by at most ${cell["loss noise, %"]} % of the loss range on average.`;
    const lines = [
      ["Method", `minimize runs "${cell.method}" with ${cell.evaluations} evaluations.`],
      ["Noise", noise],
      ["Limit", `No search with this epsilon and delta can promise a regret below ${cell["limit, %"]} % of the loss ` +
        "range on all data." + (cell["users for 1 %"] === "1" ? "" :
        ` A regret of 1 % takes ${text(Number(cell["users for 1 %"]))} users at least.`)],
      ["Attacker", `An attacker who accepts 1 false alarm in 20 detects a user at most ${cell["detections in 20"]} ` +
        "times in 20 (guessing: once)."],
    ];
    lines.unshift(verdict(cell));
    if (values.users < 500 && lines[0][0] !== "Enough users") {
      lines.splice(1, 0, ["Few users", "Unless the budget is large, expect an answer near a guess."]);
    }
    const needed = Number(cell["users needed"]);
    const unit = cell["step noise"] ? "the largest mean gradient" : "the loss range";
    if (values.users < needed) lines.push(["For less noise", `${text(needed)} users bring the noise to a quarter of ${unit}.`]);
    return lines;
  }

  // A rule of thumb. In a descent by the noise of a step: a quarter of the largest gradient, or all of it. Otherwise by
  // the noise in the loss: 2 % of the range, or 10 %.
  function verdict(cell) {
    const [noise, small, large] = cell["step noise"] ? [cell["step noise"], 0.25, 1] : [cell["loss noise, %"], 2, 10];
    if (Number(noise) <= small) return ["Enough users", "The noise is small."];
    if (Number(noise) <= large) return ["Borderline", "The noise is large: a search helps where settings differ much."];
    const little = "Expect little more than a random setting.";
    return ["Too few users", cell.helpful === "false" ? little : "Noise may hide even large differences between settings."];
  }

  const tooLarge = (values) => ["Delta", `delta must be below one over the number of users, ${exponent(1 / values.users)}.`];

  function item([head, body]) {
    const line = document.createElement("li");
    line.append(Object.assign(document.createElement("strong"), { textContent: `${head}: ` }), body);
    return line;
  }

  function check(values, cell) {
    return `jaxdpbo.preview(users=${values.users}, space=your_space, epsilon=${values.epsilon}, ` +
      `delta=${values.delta.toExponential()}, loss_range=(0, 1), search=jaxdpbo.Search(steps=${cell.steps}))`;
  }

  form.addEventListener("input", () => {
    const values = show();
    history.replaceState(null, "", `#${new URLSearchParams(values)}`);
  });
  addEventListener("hashchange", restore);
  restore();
})();
