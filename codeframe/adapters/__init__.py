"""What CodeFrame's own agents reach the world through; other people's agents have adapters in `core`."""
