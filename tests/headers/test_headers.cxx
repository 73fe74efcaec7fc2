// A C++ program finds what the headers declare.
#include <lockstep/lockstep.h>

int main()
{
    ls_context *ctx = ls_context_open(nullptr);
    const bool opened = ls_context_status(ctx) == LS_OK && ls_model_find("resnet20") != nullptr;
    const int64_t n = 3;
    ls_tensor *tensor = ls_tensor_open(ctx, LS_F32, LS_SHAPE(n, 5));
    const ls_shape one = LS_SHAPE(7), wanted = *ls_tensor_shape(tensor);
    const bool shaped = one.n_dims == 1 && one.dims[0] == 7 && wanted.n_dims == 2 &&
                        wanted.dims[0] == 3 && wanted.dims[1] == 5 && wanted.dims[2] == 0;
    ls_context_close(&ctx);
    return opened && shaped ? 0 : 1;
}
