package bounds

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limit bounds one piece of what is sent, such as an answer or an event of a watch.
type Limit struct {
	// What names the piece in errors.
	What string
	// Bytes is how many it may have.
	Bytes int64
	// Values is how many values it may have: elements, fields, and the objects and lists themselves. Two bytes of JSON or protobuf may be
	// a value that takes a thousand bytes of memory.
	Values int64
}

// Check returns a TooMuchError for a piece with more bytes than the limit has.
func (l Limit) Check(bytes int64) error {
	if bytes <= l.Bytes {
		return nil
	}
	return tooMuch("%s has more than %d bytes", l.What, l.Bytes)
}

// CheckGroupVersions returns a TooMuchError for more versions of groups than a member may serve.
func CheckGroupVersions(served int) error {
	if served <= GroupVersions {
		return nil
	}
	return tooMuch("it has %d versions of groups, more than %d", served, GroupVersions)
}

// Amount is what is kept: a number of objects, and about how many bytes they take.
type Amount struct{ Objects, Bytes int64 }

// Plus is the sum.
func (a Amount) Plus(b Amount) Amount { return Amount{a.Objects + b.Objects, a.Bytes + b.Bytes} }

// Minus is the difference.
func (a Amount) Minus(b Amount) Amount { return Amount{a.Objects - b.Objects, a.Bytes - b.Bytes} }

// Times is the multiple.
func (a Amount) Times(n int64) Amount { return Amount{a.Objects * n, a.Bytes * n} }

// within returns whether an amount is not above another.
func (a Amount) within(most Amount) bool { return a.Objects <= most.Objects && a.Bytes <= most.Bytes }

// TooMuchError means that a bound is passed.
type TooMuchError struct{ message string }

// Error implements error.
func (e *TooMuchError) Error() string { return e.message }

// IsTooMuch returns whether an error is a TooMuchError.
func IsTooMuch(err error) bool {
	_, is := errors.AsType[*TooMuchError](err)
	return is
}

func tooMuch(format string, args ...any) error { return &TooMuchError{fmt.Sprintf(format, args...)} }

// tooManyRecords begins the refusal of a record.
const tooManyRecords = "TooLarge: of one cluster the control plane stores "

// TooManyRecords is the error for a record of a member beyond MaxRecords or MaxRecordBytes.
func TooManyRecords(most string) error {
	return tooMuch(tooManyRecords+"%s of Services, EndpointSlices and events, and no more", most)
}

// OfRecord returns a TooMuchError for what the control plane answered to the write of a record that was one too many, and any other error as it
// is: the answer is text.
func OfRecord(err error) error {
	if err != nil {
		if _, why, found := strings.Cut(err.Error(), tooManyRecords); found {
			return tooMuch("%s%s", tooManyRecords, why)
		}
	}
	return err
}

// MessageBytes is how much of a text of a member is passed on.
const MessageBytes = 2 << 10

// FailureTextBytes is how much of a text of a failed request is read. A refusal quotes the value of a field, as large as a pod template, and
// has the reason behind it: values are removed from it first, and what is left is cut where it is stored.
const FailureTextBytes = 64 << 10

// Message cuts a text of a member, at the end of a character.
func Message(text string) string { return Cut(text, MessageBytes) }

// Cut cuts a text to a number of bytes, at the end of a character. A text that was cut ends with an ellipsis; nothing is left where that has no
// place.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len("…")
	if end <= 0 {
		return ""
	}
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]) + "…"
}

// Error cuts the text of an error; what it wraps stays.
func Error(err error) error {
	if err == nil || len(err.Error()) <= MessageBytes {
		return err
	}
	return &cutError{err, Message(err.Error())}
}

type cutError struct {
	error
	message string
}

// Error implements error.
func (e *cutError) Error() string { return e.message }

// Unwrap returns the error with its whole text.
func (e *cutError) Unwrap() error { return e.error }

// Names returns a TooMuchError for an object with names that no API server accepts: they are kept, and are in requests and messages.
func Names(object metav1.Object) error {
	switch longest := max(len(object.GetNamespace()), len(object.GetName()), len(object.GetUID())); {
	case longest > NameBytes:
		return tooMuch("the name of an object has %d bytes, more than %d", longest, NameBytes)
	case len(object.GetResourceVersion()) > VersionBytes:
		return tooMuch("the version of an object has %d bytes, more than %d", len(object.GetResourceVersion()), VersionBytes)
	}
	return nil
}
