"""What a person types and reads: `cf` itself, mostly as a real process."""
