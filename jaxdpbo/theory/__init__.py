"""What the papers prove, as functions of plain numbers; imports nothing of the house."""
