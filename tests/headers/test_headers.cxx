// A C++ program finds what the headers declare.
#include <lockstep/lockstep.h>

int main()
{
    ls_context *ctx = ls_context_open(nullptr);
    const bool opened = ls_context_status(ctx) == LS_OK && ls_model_find("resnet20") != nullptr;
    ls_context_close(&ctx);
    return opened ? 0 : 1;
}
