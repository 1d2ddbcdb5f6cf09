"""The offline demo: a scripted model on loopback, and the sample project it works on."""
