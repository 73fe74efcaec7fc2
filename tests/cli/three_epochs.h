/* three_epochs.h: a training that is small enough for tests of what runs leave behind. */
#ifndef LS_TESTS_CLI_THREE_EPOCHS_H
#define LS_TESTS_CLI_THREE_EPOCHS_H

#include "command.h"

/* 20 steps an epoch, with everything that draws random numbers. */
#define TRAIN "train --data-dir data --image-size 8 --epochs 3 -b 8 --crop-padding 2 --seed 7 "

static inline void draw_data(void)
{
    expect(0, "demo-data data --train 16 --val 4");
}

#endif
