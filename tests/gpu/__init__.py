"""What only a GPU can show, by one command: `python -m tests.gpu` (`make gpu`). See `tests.gpu.__main__`.

results     what is shown, as values: figures, rows, the machine, the table
exactness   sums, half precision and noise on the device against the CPU
teams       two processes that form the sums of one model
sweeping    trials that share a GPU, and a sweep of many
steps       private steps beside Opacus
"""
