// Trees in Go, with nothing but its standard library: docs/protocol.md, "Trees of other programs".
//
//	go build -o trees .                                         in this directory
//	trees -acker 127.0.0.1:6640 -namespace orders settle        reads "TOKEN" or "TOKEN why it failed", a line each
//	trees -acker 127.0.0.1:6640 -namespace orders begin 3       prints three tokens, and then how their tree has ended
//
// gRPC is HTTP/2 with a frame of five bytes before each message, and the messages are short enough to write by hand.
// For TLS give the transport a tls.Config; a user's token goes into -token.
package main

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Protocol buffers: a field is its number and kind, then a number, or a length and bytes.
func number(field int, value uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(field<<3)), value)
}

func text(field int, value []byte) []byte {
	head := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(field<<3|2)), uint64(len(value)))
	return append(head, value...)
}

func join(parts ...[]byte) (whole []byte) {
	for _, part := range parts {
		whole = append(whole, part...)
	}
	return whole
}

// The fields of a message, those of a number with the number and the others with their bytes. Doubles are passed over.
func fields(message []byte, each func(field int, value uint64, content []byte)) {
	for len(message) > 0 {
		key, size := binary.Uvarint(message)
		message = message[size:]
		if key&7 == 1 {
			message = message[8:]
			continue
		}
		value, size := binary.Uvarint(message)
		message = message[size:]
		var content []byte
		if key&7 == 2 {
			content, message = message[:value], message[value:]
		}
		each(int(key>>3), value, content)
	}
}

func packed(id uint64) []byte { return binary.LittleEndian.AppendUint64(nil, id) }

func newID() uint64 {
	var random [8]byte
	rand.Read(random[:])
	return binary.LittleEndian.Uint64(random[:])
}

// A stream of Acker.TrackTrees. It has one reader and one writer.
type stream struct {
	out      *io.PipeWriter
	answer   *http.Response
	ackerID  string
	sequence uint64
}

func (s *stream) write(message []byte) {
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	if _, err := s.out.Write(append(frame, message...)); err != nil {
		log.Fatal("the acker reads no more: ", err)
	}
}

// The next reply, or none at the end of the stream.
func (s *stream) read() []byte {
	var frame [5]byte
	if _, err := io.ReadFull(s.answer.Body, frame[:]); err != nil {
		for _, told := range []http.Header{s.answer.Trailer, s.answer.Header} {
			if status := told.Get("Grpc-Status"); status != "" && status != "0" {
				log.Fatalf("the acker refuses: %s (status %s)", told.Get("Grpc-Message"), status)
			}
		}
		return nil
	}
	message := make([]byte, binary.BigEndian.Uint32(frame[1:]))
	if _, err := io.ReadFull(s.answer.Body, message); err != nil {
		log.Fatal(err)
	}
	return message
}

func open(acker, namespace, token string) *stream {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	in, out := io.Pipe()
	request, err := http.NewRequest("POST", "http://"+acker+"/tupletree.v1.Acker/TrackTrees", in)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("TE", "trailers")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	s := &stream{out: out}
	go s.write(text(1, join(text(1, []byte(namespace)), text(2, []byte("trees-go")))))
	s.answer, err = (&http.Transport{Protocols: protocols}).RoundTrip(request)
	if err != nil {
		log.Fatal(err)
	}
	fields(s.read(), func(field int, _ uint64, content []byte) {
		if field == 1 {
			s.ackerID = string(content)
		}
	})
	return s
}

// Send the updates of one message: fields of a ShardUpdate.
func (s *stream) update(columns ...[]byte) {
	s.sequence++
	s.write(text(2, join(number(1, s.sequence), text(3, join(columns...)))))
}

func settle(s *stream, lines *bufio.Scanner) {
	for lines.Scan() {
		token, reason, failed := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		parts := strings.SplitN(token, ".", 4) // tt1, the acker's id, root and edge, namespace
		if len(parts) != 4 || len(parts[2]) != 32 || parts[1] != s.ackerID {
			log.Printf("passed over: %s is not a child of a tree at %s", token, s.ackerID)
			continue
		}
		root, _ := strconv.ParseUint(parts[2][:16], 16, 64)
		edge, _ := strconv.ParseUint(parts[2][16:], 16, 64)
		if failed {
			why := join(text(1, []byte(reason)), text(2, packed(root)), text(3, make([]byte, 4)))
			s.update(text(7, packed(root)), text(10, why))
		} else {
			s.update(text(5, packed(root)), text(6, packed(edge)))
		}
	}
	s.out.Close()
	for s.read() != nil { // until all is applied
	}
}

func begin(s *stream, namespace string, children int, timeout time.Duration) string {
	root, value := newID(), uint64(0)
	for range children {
		edge := newID()
		value ^= edge
		fmt.Printf("tt1.%s.%016x%016x.%s\n", s.ackerID, root, edge, namespace)
	}
	s.update(text(2, packed(root)), text(3, packed(value)))
	time.AfterFunc(timeout, func() {
		fmt.Println("timed out")
		os.Exit(0)
	})
	outcome := ""
	for outcome == "" {
		reply := s.read()
		if reply == nil {
			return "lost"
		}
		fields(reply, func(field int, _ uint64, verdicts []byte) {
			if field == 3 { // of the only tree of this stream
				fields(verdicts, func(kind int, _ uint64, _ []byte) {
					outcome += map[int]string{2: "done", 3: "failed", 4: "timed out", 8: "refused"}[kind]
				})
			}
		})
	}
	return outcome
}

func main() {
	acker := flag.String("acker", "127.0.0.1:6640", "address of the acker")
	namespace := flag.String("namespace", "orders", "one of acker.trees.namespaces")
	token := flag.String("token", "", "the token of a user")
	timeout := flag.Duration("timeout", 30*time.Second, "of the tree")
	flag.Parse()
	s := open(*acker, *namespace, *token)
	if children, err := strconv.Atoi(flag.Arg(1)); err == nil && flag.Arg(0) == "begin" {
		fmt.Println(begin(s, *namespace, children, *timeout))
	} else {
		settle(s, bufio.NewScanner(os.Stdin))
	}
}
