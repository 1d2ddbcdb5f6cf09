"""CodeFrame: hand tasks to coding agents, verify what comes back, lose nothing."""

__version__ = "0.1.0"
