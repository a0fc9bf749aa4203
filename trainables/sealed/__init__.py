"""The worker's side of a private selection: trials that leave nothing behind but the best so far, encrypted.

Everything outside a worker's memory is as it would be with any other number of trials and any other results: files of
each worker, always as long, written at announced times whatever happens.

search  what is drawn once, in secret, before the first trial, which trial leaves, and the announced times; what a
        worker keeps, encrypted: how far it is, and its best
worker  a worker, from its start to the announced end, one trial after the other in memory
"""
