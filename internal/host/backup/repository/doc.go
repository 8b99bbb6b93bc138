// Package repository keeps files in a directory or in a bucket of an object storage that speaks the S3 API.
package repository
