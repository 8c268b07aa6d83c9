"""One file per task, with its prompt templates in a TOML file beside it."""
