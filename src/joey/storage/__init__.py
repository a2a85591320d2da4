"""Tasks on disk: journal, histories, index, import from Roo Code."""
