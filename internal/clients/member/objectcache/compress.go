package objectcache

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// codecWindow is how far back a repetition is found, in bytes. Most objects are smaller, and the buffers of an encoder grow with it.
const codecWindow = 64 << 10

// Codec compresses objects, with zstd. All members of a process share one, since an encoder has tables of half a megabyte. It is safe for
// concurrent use.
type Codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// NewCodec returns a Codec. It starts nothing, and need not be closed.
func NewCodec() (*Codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(codecWindow),
		zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
	if err != nil {
		return nil, fmt.Errorf("making an encoder: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("making a decoder: %w", err)
	}
	return &Codec{encoder, decoder}, nil
}

// compress returns text in a slice of exactly its size.
func (c *Codec) compress(text []byte) []byte {
	compressed := c.encoder.EncodeAll(text, make([]byte, 0, len(text)))
	return append(make([]byte, 0, len(compressed)), compressed...)
}

func (c *Codec) decompress(compressed []byte) ([]byte, error) {
	return c.decoder.DecodeAll(compressed, nil)
}
