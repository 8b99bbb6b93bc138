// Package replicas decides who sets the replicas of an object in a member: the template, or who scales the object there.
package replicas
