"""What the papers prove, as functions of plain numbers."""
