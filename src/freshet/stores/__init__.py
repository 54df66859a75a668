"""Where every third-party storage API stops: Lance, Delta, file systems, checkpoints."""
