// Go's own regular expressions as a judge: {"patterns": […], "texts": […]} in, for each pattern an error or the texts it finds out.
package main

import (
	"encoding/json"
	"os"
	"regexp"
)

type answer struct {
	Error string `json:"error"`
	Found []bool `json:"found"`
}

func main() {
	var question struct{ Patterns, Texts []string }
	if err := json.NewDecoder(os.Stdin).Decode(&question); err != nil {
		panic(err)
	}
	answers := []answer{}
	for _, pattern := range question.Patterns {
		one := answer{}
		if re, err := regexp.Compile(pattern); err != nil {
			one.Error = err.Error()
		} else {
			for _, text := range question.Texts {
				one.Found = append(one.Found, re.MatchString(text))
			}
		}
		answers = append(answers, one)
	}
	json.NewEncoder(os.Stdout).Encode(answers)
}
