/* net_state.h: what a net is made of, for the net_*.c files. */
#ifndef LS_NN_NET_STATE_H
#define LS_NN_NET_STATE_H

#include "nn/program.h"

struct ls_net {
    ls__owned owned;
    ls_graph graph;
    ls_net_config config;
    ls__net_blocks blocks;
    int64_t block_elements; /* parameters and buffers */
    ls_tensor *value_views; /* one per entry */
    ls_tensor *gradient_views;

    ls__program **programs; /* cache, by mode and input shapes */
    int n_programs, max_programs;
    int64_t clock;            /* counts uses, for the cache */
    ls__choices *choices;     /* what programs have used: for these ops it is so for ever */
    int64_t choices_known_to; /* by the clock of the context's table: what that has learned since is
                                 not for this net */
    unsigned char *arena;     /* shared by all programs */
    size_t arena_bytes;
    uint64_t arena_generation;

    const ls_tensor **feeds;       /* per graph input: what the next forward copies */
    ls_spec *fed_specs;            /* room for a program's key */
    ls_tensor *output_views;       /* per graph output */
    ls_tensor *gradient_of_inputs; /* per graph input */
    ls__program *current;          /* ran last */
    bool forward_done;             /* current is a train program whose backward may run */
    bool has_gradients;
    ls__step step;
};

/* Allocates the blocks, sets offsets, draws initial values, makes the views. */
ls_status ls__net_open_blocks(ls_net *net);
void ls__net_close_blocks(ls_net *net);

/* The program for these inputs, from the cache or made now; bound to the arena. */
ls_status ls__net_program(ls_net *net, ls_mode mode, const ls_spec *input_specs, bool timed,
                          ls__program **out);
/* Forgets programs whose gradients were planned for other frozen parameters or wanted inputs. */
void ls__net_drop_training_programs(ls_net *net);

#endif
