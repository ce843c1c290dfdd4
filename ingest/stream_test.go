package ingest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"testing"
)

// A set keeps what it hashed each file with: of hundreds of files, the blocks must not stay.
func TestHashedReaderLetsBlocksGo(t *testing.T) {
	for _, size := range []int{0, 1, blockSize, blockSize + 1, 3*blockCount*blockSize + 7} {
		for _, whole := range []bool{true, false} {
			data := bytes.Repeat([]byte{7}, size)
			h := newHashedReader(context.Background(), io.NopCloser(bytes.NewReader(data)))
			if whole {
				got, err := io.ReadAll(h)
				if err != nil || !bytes.Equal(got, data) {
					t.Fatalf("%d bytes: read %d: %v", size, len(got), err)
				}
			} else if size > 0 {
				if _, err := h.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				sum, n, err := h.Sum()
				want := sha256.Sum256(data)
				if err != nil || n != int64(size) || sum != hex.EncodeToString(want[:]) {
					t.Errorf("%d bytes: sum %s of %d: %v", size, sum, n, err)
				}
			}
			if n := len(h.free); n > 0 {
				t.Errorf("%d bytes, whole %v: %d blocks are kept", size, whole, n)
			}
		}
	}
}
