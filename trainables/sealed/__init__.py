"""The worker's side of a private selection: trials that leave nothing behind but the best so far, encrypted.

Everything outside a worker's memory is as it would be with any other number of trials and any other results: one pair
of files for each worker, always as long, written at announced times whatever happens.

    box       encryption of records of one size
    drawn     what is drawn once, in secret, before the first trial: how many there are, and which
    ranking   which trial leaves
    standing  what a worker keeps: how far it is, and its best
    schedule  when it is written
    slot      one trial, in memory
    worker    a worker, from its start to the announced end
"""
