/* one_epoch.h: a training that is small enough for tests of what the command says. */
#ifndef LS_TESTS_CLI_ONE_EPOCH_H
#define LS_TESTS_CLI_ONE_EPOCH_H

/* Images of 8x8 pixels. */
#define TRAIN "train --data-dir data --image-size 8 --epochs 1 -b 8 -j 1 --threads 1 --out run "

#endif
