"""Model providers: what an agent of our own asks, and who answers. Nothing heavy is imported here."""
