/* pnm.c: the grey and colour maps of Netpbm, P2 and P3 in decimal text, P5 and P6 in binary.
 * Samples 0..maxval become 0..255, rounded. https://netpbm.sourceforge.net/doc/ppm.html */
#include "data/decode/decoder.h"

typedef struct reader {
    const uint8_t *at, *end;
} reader;

static bool is_space(int c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next decimal number after white space and comments; -1 when there is none below 2^31. */
static int64_t next_number(reader *in)
{
    while (in->at < in->end && (is_space(*in->at) || *in->at == '#')) {
        if (*in->at == '#')
            while (in->at < in->end && *in->at != '\n' && *in->at != '\r') in->at++;
        else
            in->at++;
    }
    if (in->at == in->end || *in->at < '0' || *in->at > '9') return -1;
    int64_t number = 0;
    for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; in->at++) {
        number = 10 * number + (*in->at - '0');
        if (number > INT32_MAX) return -1;
    }
    return number;
}

static bool next_sample(reader *in, bool text, int64_t most, uint8_t *out)
{
    const int bytes = most > 255 ? 2 : 1;
    if (!text && in->end - in->at < bytes) return false;
    int64_t sample = text ? next_number(in) : bytes == 2 ? ls__be16(in->at) : *in->at;
    if (sample < 0) return false;
    if (!text) in->at += bytes;
    if (sample > most) sample = most;
    *out = (uint8_t)((sample * 255 + most / 2) / most);
    return true;
}

ls_status ls__pnm_probe(ls__decoder *decoder)
{
    const char kind = (char)decoder->file[1];
    const bool text = kind == '2' || kind == '3';
    const int channels = kind == '3' || kind == '6' ? 3 : 1;
    reader in = { decoder->file + 2, decoder->file + decoder->file_bytes };
    const int64_t width = next_number(&in), height = next_number(&in), most = next_number(&in);
    if (width < 0 || height < 0 || most < 1 || most > 65535)
        return ls__undecodable(decoder, LS_ERR_DATA, "damaged PNM: no sound header");
    LS_TRY(ls__decoder_check(decoder, height, width));
    if (in.at < in.end) in.at++; /* the one white space before the samples */
    if (in.end - in.at < height * width * channels)
        return ls__undecodable(decoder, LS_ERR_DATA, "truncated PNM file");
    LS_TRY(ls__decoder_begin(decoder));

    uint8_t *out = decoder->image.pixels;
    for (int64_t i = 0; i < height * width; i++, out += 3) {
        for (int c = 0; c < channels; c++)
            if (!next_sample(&in, text, most, &out[c]))
                return ls__undecodable(decoder, LS_ERR_DATA, "truncated PNM file");
        if (channels == 1) out[1] = out[2] = out[0];
    }
    return LS_OK;
}
