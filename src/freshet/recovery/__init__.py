"""Recovery: backups of checkpoints and small tables, and checkpoints made anew from tables."""
