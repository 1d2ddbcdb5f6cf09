"""What a person types: one file per command group, no domain logic."""
