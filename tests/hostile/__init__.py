"""Engines that misbehave, driven end to end through the real `cf` (rule 12)."""
