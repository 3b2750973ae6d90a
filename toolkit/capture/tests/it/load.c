/*
 * A client whose statements are known: every form of command that a capture can hold, on one
 * connection. Used by live.rs, which knows what it does.
 *
 *     load PORT plain|compressed FILE     FILE: two lines, for LOAD DATA LOCAL
 *     load PORT many FILE                 many connections that sleep; prints, for each statement,
 *                                         its class, how long it slept and how long it took
 */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static MYSQL *db;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void drain(void)
{
    do {
        MYSQL_RES *result = mysql_store_result(db);
        if (result)
            mysql_free_result(result);
    } while (mysql_next_result(db) == 0);
}

static void ask(const char *sql)
{
    if (mysql_query(db, sql))
        fail(sql, mysql_error(db));
    drain();
}

static MYSQL_STMT *prepare(const char *sql)
{
    MYSQL_STMT *stmt = mysql_stmt_init(db);
    if (mysql_stmt_prepare(stmt, sql, strlen(sql)))
        fail(sql, mysql_stmt_error(stmt));
    return stmt;
}

static void execute(MYSQL_STMT *stmt)
{
    if (mysql_stmt_execute(stmt))
        fail("execute", mysql_stmt_error(stmt));
    if (mysql_stmt_field_count(stmt)) {
        while (mysql_stmt_fetch(stmt) == 0)
            ;
        mysql_stmt_free_result(stmt);
    }
}

static const char *classes[5] = {"alpha", "beta", "gamma", "delta", "epsilon"};
/* Milliseconds; a statement sleeps half of it to one and a half. */
static const int sleeps[5] = {4, 6, 9, 13, 20};

enum { CLIENTS = 24, STATEMENTS = 200 };

static MYSQL *connection(const char *port, const char *name)
{
    MYSQL *made = mysql_init(NULL);
    my_bool no = 0;
    mysql_options(made, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &no);
    if (!mysql_real_connect(made, "127.0.0.1", "app", "secret", name, atoi(port), NULL, 0))
        fail("connect", mysql_error(made));
    return made;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* One client. What it measures is printed at its end, so that printing takes no time of it. */
static void sleeper(const char *port, int number)
{
    static struct { int class; double slept, took; } done[STATEMENTS];
    db = connection(port, "shop");
    srand(number);
    for (int i = 0; i < STATEMENTS; i++) {
        int class = rand() % 5;
        double wanted = sleeps[class] * (0.5 + rand() % 1000 / 1000.0) / 1000;
        char sql[200];
        snprintf(sql, sizeof sql, "select sleep(%.6f), '%d.%d' from %s where a = 1", wanted, number, i,
                 classes[class]);
        double begun = now();
        ask(sql);
        done[i].class = class;
        done[i].slept = wanted;
        done[i].took = now() - begun;
        usleep(rand() % 2000);
    }
    mysql_close(db);
    for (int i = 0; i < STATEMENTS; i++)
        printf("%d %.9f %.9f\n", done[i].class, done[i].slept, done[i].took);
    fflush(stdout);
}

static int many(const char *port)
{
    db = connection(port, "shop");
    for (int class = 0; class < 5; class++) {
        char sql[200];
        snprintf(sql, sizeof sql, "create table %s (a int)", classes[class]);
        ask(sql);
        snprintf(sql, sizeof sql, "insert into %s values (1)", classes[class]);
        ask(sql);
    }
    mysql_close(db);
    for (int number = 0; number < CLIENTS; number++) {
        if (fork() == 0) {
            sleeper(port, number);
            _exit(0);
        }
    }
    int failed = 0, status;
    while (wait(&status) > 0)
        failed |= status;
    return failed != 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        fail("usage", "load PORT plain|compressed|many FILE");
    /* Lines of several processes must not meet. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(argv[2], "many"))
        return many(argv[1]);
    db = mysql_init(NULL);
    my_bool no = 0;
    unsigned on = 1;
    mysql_options(db, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &no);
    mysql_options(db, MYSQL_OPT_LOCAL_INFILE, &on);
    mysql_options4(db, MYSQL_OPT_CONNECT_ATTR_ADD, "role", "load");
    unsigned long packet = 64ul << 20;
    mysql_options(db, MYSQL_OPT_MAX_ALLOWED_PACKET, &packet);
    unsigned long flags = CLIENT_MULTI_STATEMENTS | CLIENT_MULTI_RESULTS;
    if (!strcmp(argv[2], "compressed")) {
        flags |= CLIENT_COMPRESS;
        mysql_options(db, MYSQL_OPT_COMPRESS, NULL);
    }
    if (!mysql_real_connect(db, "127.0.0.1", "app", "secret", NULL, atoi(argv[1]), NULL, flags))
        fail("connect", mysql_error(db));
    if (mysql_select_db(db, "shop"))
        fail("select_db", mysql_error(db));
    ask("create or replace table t (id int auto_increment primary key, a varchar(100), b longblob)");
    char sql[1000];
    for (int i = 1; i <= 50; i++) {
        snprintf(sql, sizeof sql, "insert into t (a) values ('row %d')", i);
        ask(sql);
    }
    ask("select id, a from t");
    ask("update t set b = a where id <= 20");
    if (mysql_query(db, "select nosuch from t") == 0)
        fail("select nosuch", "succeeded");
    for (int i = 0; i < 3; i++)
        ask("select sleep(0.05)");
    ask("select 1; insert into t (a) values ('m'), ('n'); select 2 union select 3");
    ask("use `shop`");

    /* Values, then other values without their types. */
    MYSQL_STMT *stmt = prepare("select id from t where id > ? and a <> ?");
    MYSQL_BIND bind[2];
    memset(bind, 0, sizeof bind);
    int id = 10;
    char text[] = "it's";
    unsigned long length = strlen(text);
    bind[0].buffer_type = MYSQL_TYPE_LONG;
    bind[0].buffer = &id;
    bind[1].buffer_type = MYSQL_TYPE_STRING;
    bind[1].buffer = text;
    bind[1].length = &length;
    mysql_stmt_bind_param(stmt, bind);
    execute(stmt);
    id = 40;
    execute(stmt);
    mysql_stmt_close(stmt);

    stmt = prepare("insert into t (a, b) values (?, ?)");
    char name[] = "long";
    unsigned long name_length = strlen(name);
    memset(bind, 0, sizeof bind);
    bind[0].buffer_type = MYSQL_TYPE_STRING;
    bind[0].buffer = name;
    bind[0].length = &name_length;
    bind[1].buffer_type = MYSQL_TYPE_LONG_BLOB;
    mysql_stmt_bind_param(stmt, bind);
    mysql_stmt_send_long_data(stmt, 1, "first ", 6);
    mysql_stmt_send_long_data(stmt, 1, "second", 6);
    execute(stmt);
    mysql_stmt_reset(stmt);
    mysql_stmt_close(stmt);

    /* A cursor: rows come with later commands. */
    stmt = mysql_stmt_init(db);
    unsigned long cursor = CURSOR_TYPE_READ_ONLY, prefetch = 10;
    mysql_stmt_attr_set(stmt, STMT_ATTR_CURSOR_TYPE, &cursor);
    mysql_stmt_attr_set(stmt, STMT_ATTR_PREFETCH_ROWS, &prefetch);
    const char *all = "select id from t where id <= 35 order by id";
    if (mysql_stmt_prepare(stmt, all, strlen(all)))
        fail(all, mysql_stmt_error(stmt));
    execute(stmt);
    mysql_stmt_close(stmt);

    /* Three rows with one command. */
    stmt = prepare("insert into t (a) values (?)");
    char *names[3] = {"x", "yy", "zzz"};
    unsigned long lengths[3] = {1, 2, 3};
    unsigned rows = 3;
    memset(bind, 0, sizeof bind);
    bind[0].buffer_type = MYSQL_TYPE_STRING;
    bind[0].buffer = names;
    bind[0].length = lengths;
    mysql_stmt_attr_set(stmt, STMT_ATTR_ARRAY_SIZE, &rows);
    mysql_stmt_bind_param(stmt, bind);
    execute(stmt);
    mysql_stmt_close(stmt);

    ask("select repeat('x', 2000000)");
    /* A statement longer than a packet can be. */
    size_t size = 17u << 20;
    char *big = malloc(size + 100);
    strcpy(big, "select length('");
    memset(big + 15, 'x', size);
    strcpy(big + 15 + size, "')");
    ask(big);
    /* And an answer. */
    ask("select repeat('y', 17000000)");

    snprintf(sql, sizeof sql, "load data local infile '%s' into table t (a)", argv[3]);
    ask(sql);
    mysql_ping(db);
    mysql_stat(db);
    if (mysql_change_user(db, "app", "secret", "other"))
        fail("change_user", mysql_error(db));
    ask("select database()");
    mysql_reset_connection(db);
    ask("select 'after reset'");
    mysql_close(db);
    return 0;
}
