/* SPDX-License-Identifier: BSD-3-Clause */
/* The intrusive list: order, removal, repeated removal, removal while iterating. */
#include "runtime/base/list.h"
#include "test/check.h"

struct item {
    int value;
    struct rt_list link;
};

static struct rt_list head;
static struct item items[5];

static void fill(void)
{
    rt_list_init(&head);
    for (int i = 0; i < 5; i++) {
        items[i].value = i;
        rt_list_append(&head, &items[i].link);
    }
}

static int sum_in_order(void)
{
    struct rt_list *p;
    int text = 0;
    rt_list_each (p, &head)
        text = text * 10 + rt_container(p, struct item, link)->value + 1;
    return text;
}

static void appends_in_order(void)
{
    rt_list_init(&head);
    CHECK(rt_list_empty(&head));
    CHECK_EQ(sum_in_order(), 0);
    fill();
    CHECK(!rt_list_empty(&head));
    CHECK_EQ(sum_in_order(), 12345);
}

static void removes_anywhere_and_twice(void)
{
    fill();
    rt_list_del(&items[2].link);
    CHECK_EQ(sum_in_order(), 1245);
    rt_list_del(&items[2].link);
    CHECK_EQ(sum_in_order(), 1245);
    rt_list_del(&items[0].link);
    rt_list_del(&items[4].link);
    CHECK_EQ(sum_in_order(), 24);
    rt_list_append(&head, &items[0].link);
    CHECK_EQ(sum_in_order(), 241);
}

static void safe_iteration_allows_removal(void)
{
    struct rt_list *p, *next;
    int seen = 0;
    fill();
    rt_list_each_safe (p, next, &head) {
        seen++;
        if (rt_container(p, struct item, link)->value % 2 == 0)
            rt_list_del(p);
    }
    CHECK_EQ(seen, 5);
    CHECK_EQ(sum_in_order(), 24);
}

int main(void)
{
    RUN(appends_in_order);
    RUN(removes_anywhere_and_twice);
    RUN(safe_iteration_allows_removal);
    return check_end();
}
