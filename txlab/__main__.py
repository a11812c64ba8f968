"""`python -m txlab`, and so `torchrun -m txlab`."""

from txlab.cli import main

if __name__ == "__main__":
    main()
