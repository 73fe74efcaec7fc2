/* absent.c: in place of the other sources of this folder in a build without protobuf-c. */
#include "base/error.h"
#include <lockstep/onnx.h>

ls_status ls_onnx_export(ls_net *net, const ls_onnx_config *config, const char *path)
{
    (void)config;
    (void)path;
    LS__ENTER(ls_net_context(net));
    return ls__fail(ls_net_context(net), LS_ERR_UNSUPPORTED,
                    "ls_onnx_export: this build is without ONNX; expected a build with protobuf-c "
                    "(libprotobuf-c-dev and protobuf-c-compiler)");
}
