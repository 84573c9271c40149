/* SPDX-License-Identifier: BSD-3-Clause */
/* Intrusive doubly linked list with a head node.  An unlinked node points to itself, so
 * rt_list_del() may be repeated. */
#ifndef RT_BASE_LIST_H
#define RT_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct rt_list {
    struct rt_list *next, *prev;
};

#define rt_container(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

static inline void rt_list_init(struct rt_list *l) { l->next = l->prev = l; }
static inline bool rt_list_empty(const struct rt_list *l) { return l->next == l; }

static inline void rt_list_append(struct rt_list *head, struct rt_list *n)
{
    n->prev = head->prev;
    n->next = head;
    head->prev->next = n;
    head->prev = n;
}

static inline void rt_list_del(struct rt_list *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    rt_list_init(n);
}

#define rt_list_each(pos, head) for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
#define rt_list_each_safe(pos, tmp, head) \
    for ((pos) = (head)->next; (tmp) = (pos)->next, (pos) != (head); (pos) = (tmp))

#endif
