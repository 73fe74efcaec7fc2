/* svg.c: see svg.h. */
#include "report/svg.h"

#include "base/c_locale.h"
#include "base/floats.h"
#include <math.h>
#include <stdio.h>

/* Grey, then blues that get darker, then orange: the lightness differs, too. */
static const char *const shades[] = { "",        "#8b8680", "#bcc7d2", "#93b5d1",
                                      "#5f9ac6", "#2f78ad", "#0b4f86", "#e06c00" };
static const char *const dashes[] = { "", " stroke-dasharray=\"7 4\"",
                                      " stroke-dasharray=\"2 4\"" };

const char *ls__svg_colour(const ls__svg_stroke *stroke, const char *otherwise)
{
    return stroke->shade ? shades[stroke->shade] : otherwise;
}

void ls__svg_begin_path(ls__html *out, const ls__svg_stroke *stroke, const char *otherwise,
                        double width)
{
    ls__html_put(out,
                 "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" "
                 "stroke-linejoin=\"round\"%s d=\"",
                 ls__svg_colour(stroke, otherwise), width, dashes[stroke->dash]);
}

void ls__svg_text(ls__html *out, double x, double y, const char *anchor, const char *more,
                  const char *text)
{
    ls__html_put(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, more);
    ls__html_wrap(out, "", text, "</text>\n");
}

void ls__svg_number(ls__html *out, double x, double y, const char *anchor, double value)
{
    char text[32];
    snprintf(text, sizeof(text), "%.9g", value);
    ls__svg_text(out, x, y, anchor, "", text);
}

void ls__svg_rectangle(ls__html *out, double x, double y, double width, double height,
                       const char *fill)
{
    ls__html_put(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
                 x, y, width, height, fill);
}

double ls__svg_tick_distance(double range, double n)
{
    const double rough = range / n, power = pow(10, floor(log10(rough))), times = rough / power;
    return power * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
}

void ls__svg_put(ls__html *out, ls__svg_draw *draw, const void *chart, double width)
{
    LS__IN_C_LOCALE;
    LS__DEFAULT_FLOATS; /* printf uses the rounding mode */
    ls__html elements = { .ctx = out->ctx };
    const double height = draw(&elements, chart, width);
    ls__html_put(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                 "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"14\" "
                 "fill=\"#222222\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
                 width, height, width, height);
    ls__bytes_put(out, elements.data, elements.size);
    ls__html_put(out, "</svg>\n");
    out->failed |= elements.failed;
    ls__bytes_free(&elements);
}
