// Blocks of C's malloc that a Go program keeps, in its own heap and in a list of C's; of three it frees two again.
package main

/*
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

struct node {
	struct node *next;
	char text[1];
};

static struct node *first;

static void *keep(size_t size) {
	struct node *made = malloc(sizeof *made + size);
	// no word stays that was there before
	memset(made, 'x', malloc_usable_size(made));
	made->next = first;
	return first = made;
}

static void *apart(size_t size) { return memset(malloc(size), 'y', size); }
*/
import "C"

import (
	"fmt"
	"math/rand"
	"sync"
	"time"
	"unsafe"
)

const threads, blocks = 4, 3000

func fill(number int64, kept []unsafe.Pointer) {
	random := rand.New(rand.NewSource(number))
	for at := range kept {
		kept[at] = C.apart(C.size_t(20 + random.Intn(3000)))
	}
	for at := range kept {
		if at%3 != 0 {
			C.free(kept[at])
			kept[at] = nil
		}
	}
}

func main() {
	var all [threads][blocks]unsafe.Pointer
	var done sync.WaitGroup
	for number := range all {
		done.Add(1)
		go func(number int) {
			fill(int64(number), all[number][:])
			done.Done()
		}(number)
	}
	done.Wait()
	for at := 0; at < blocks; at++ {
		C.keep(C.size_t(20 + at%500))
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
	fmt.Println(all[0][0])
}
