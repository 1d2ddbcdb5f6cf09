"""`python -m codeframe` is the same program as `cf`."""

from codeframe.cli.app import main

if __name__ == "__main__":
    main()
