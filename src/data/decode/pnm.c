/* pnm.c: the grey and colour maps of Netpbm, P2 and P3 in decimal text, P5 and P6 in binary.
 * Samples 0..maxval, or with a depth 0..2^depth-1, become 0..255, rounded.
 * https://netpbm.sourceforge.net/doc/ppm.html */
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

/* -1: none. */
static int64_t next_sample(reader *in, bool text, int bytes)
{
    if (text) return next_number(in);
    if (in->end - in->at < bytes) return -1;
    const int64_t sample = bytes == 2 ? ls__be16(in->at) : *in->at;
    in->at += bytes;
    return sample;
}

static ls_status read_samples(ls__decoder *decoder, reader *in, bool text, int channels,
                              int64_t maxval)
{
    const int bytes = maxval > 255 ? 2 : 1;
    const int64_t n = decoder->image.height * decoder->image.width * channels;
    const int64_t white = bytes == 2 && decoder->depth > 0 ? (1 << decoder->depth) - 1 : maxval;
    int64_t min = maxval, max = 0;
    uint8_t *out = decoder->image.pixels;
    for (int64_t i = 0; i < n; i++, out += 3 / channels) {
        int64_t sample = next_sample(in, text, bytes);
        if (sample < 0) return ls__undecodable(decoder, LS_ERR_DATA, "truncated PNM file");
        if (sample > maxval) sample = maxval;
        if (sample < min) min = sample;
        if (sample > max) max = sample;
        if (sample > white) sample = white;
        out[0] = (uint8_t)((sample * 255 + white / 2) / white);
        if (channels == 1) out[1] = out[2] = out[0];
    }
    /* With a smaller maxval, which the file states, the samples use their range as they are. */
    decoder->min_sample = maxval == UINT16_MAX ? (uint32_t)min : 0;
    decoder->max_sample = maxval == UINT16_MAX ? (uint32_t)max : 0;
    return LS_OK;
}

ls_status ls__pnm_probe(ls__decoder *decoder)
{
    const char kind = (char)decoder->file[1];
    const bool text = kind == '2' || kind == '3';
    const int channels = kind == '3' || kind == '6' ? 3 : 1;
    reader in = { decoder->file + 2, decoder->file + decoder->file_bytes };
    const int64_t width = next_number(&in), height = next_number(&in), maxval = next_number(&in);
    if (width < 0 || height < 0 || maxval < 1 || maxval > 65535)
        return ls__undecodable(decoder, LS_ERR_DATA, "damaged PNM: no sound header");
    LS_TRY(ls__decoder_check(decoder, height, width));
    if (in.at < in.end) in.at++; /* the one white space before the samples */
    if (in.end - in.at < height * width * channels)
        return ls__undecodable(decoder, LS_ERR_DATA, "truncated PNM file");
    LS_TRY(ls__decoder_begin(decoder, 3));
    return read_samples(decoder, &in, text, channels, maxval);
}
