/* A module that calls commands as other modules do: by RedisModule_Call, with the flags that the test names.
 *
 *   CALLER.CALL flags command [arg ...]   calls it, and gives its reply, or that of its promise
 *   CALLER.LOGIN name                     makes the client one of a user of this module's own, who may do all
 *
 * Only what is used is declared, by hand. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct Ctx Ctx;
typedef struct String String;
typedef struct Reply Reply;
typedef struct Blocked Blocked;
typedef struct User User;
typedef int (*Handler)(Ctx *, String **, int);
typedef void (*OnUnblocked)(Ctx *, Reply *, void *);

enum { OK = 0, ERR = 1, PROMISE = 12 };

static int (*GetApi)(const char *, void *);
static void (*SetModuleAttribs)(Ctx *, const char *, int, int);
static int (*CreateCommand)(Ctx *, const char *, Handler, const char *, int, int, int);
static const char *(*StringPtrLen)(const String *, size_t *);
static Reply *(*Call)(Ctx *, const char *, const char *, ...);
static int (*CallReplyType)(Reply *);
static void (*FreeCallReply)(Reply *);
static int (*ReplyWithCallReply)(Ctx *, Reply *);
static int (*ReplyWithError)(Ctx *, const char *);
static int (*ReplyWithLongLong)(Ctx *, long long);
static int (*ReplyWithSimpleString)(Ctx *, const char *);
static Blocked *(*BlockClient)(Ctx *, Handler, Handler, void (*)(Ctx *, void *), long long);
static int (*UnblockClient)(Blocked *, void *);
static Ctx *(*GetThreadSafeContext)(Blocked *);
static void (*FreeThreadSafeContext)(Ctx *);
static User *(*CreateModuleUser)(const char *);
static int (*SetModuleUserACL)(User *, const char *);
static int (*AuthenticateClientWithUser)(Ctx *, User *, void *, void *, void *);
/* Since Redis 7.2. */
static void (*CallReplyPromiseSetUnblockHandler)(Reply *, OnUnblocked, void *);

/* A client that speaks RESP2 takes no reply of RESP3. */
static void reply_with(Ctx *ctx, Reply *reply) {
    if (ReplyWithCallReply(ctx, reply) != OK) ReplyWithError(ctx, "ERR not a reply for this client");
}

static void end(Blocked *blocked, Reply *reply, const char *error) {
    Ctx *ctx = GetThreadSafeContext(blocked);
    if (reply) reply_with(ctx, reply);
    else ReplyWithError(ctx, error);
    FreeThreadSafeContext(ctx);
    UnblockClient(blocked, NULL);
}

static void unblocked(Ctx *ctx, Reply *reply, void *data) {
    (void)ctx;
    end(data, reply, "ERR the promise came to no reply");
    if (reply) FreeCallReply(reply);
}

static int call(Ctx *ctx, String **argv, int argc) {
    if (argc < 3) return ReplyWithError(ctx, "ERR flags and a command");
    size_t len;
    char format[16];
    snprintf(format, sizeof(format), "%sv", StringPtrLen(argv[1], &len));
    if (!CallReplyPromiseSetUnblockHandler && strchr(format, 'K')) return ReplyWithError(ctx, "ERR no promises");
    errno = 0;
    Reply *reply = Call(ctx, StringPtrLen(argv[2], &len), format, argv + 3, (size_t)(argc - 3));
    if (!reply) {
        char error[64];
        snprintf(error, sizeof(error), "ERR no reply, errno %d", errno);
        return ReplyWithError(ctx, error);
    }
    if (CallReplyType(reply) == PROMISE) {
        Blocked *blocked = BlockClient(ctx, NULL, NULL, NULL, 0);
        CallReplyPromiseSetUnblockHandler(reply, unblocked, blocked);
        FreeCallReply(reply);
        return OK;
    }
    reply_with(ctx, reply);
    FreeCallReply(reply);
    return OK;
}

static int login(Ctx *ctx, String **argv, int argc) {
    if (argc != 2) return ReplyWithError(ctx, "ERR a name");
    size_t len;
    User *user = CreateModuleUser(StringPtrLen(argv[1], &len));
    const char *rules[] = {"on", "allkeys", "allcommands", "allchannels"};
    for (int i = 0; i < 4; i++) SetModuleUserACL(user, rules[i]);
    if (AuthenticateClientWithUser(ctx, user, NULL, NULL, NULL) != OK) return ReplyWithError(ctx, "ERR no login");
    return ReplyWithSimpleString(ctx, "OK");
}

#define GET(name) GetApi("RedisModule_" #name, (void *)&name)

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    GetApi = *(int (**)(const char *, void *))ctx;
    GET(SetModuleAttribs), GET(CreateCommand), GET(StringPtrLen), GET(Call), GET(CallReplyType), GET(FreeCallReply);
    GET(ReplyWithCallReply), GET(ReplyWithError), GET(ReplyWithLongLong), GET(ReplyWithSimpleString);
    GET(BlockClient), GET(UnblockClient), GET(GetThreadSafeContext), GET(FreeThreadSafeContext);
    GET(CreateModuleUser), GET(SetModuleUserACL), GET(AuthenticateClientWithUser);
    GET(CallReplyPromiseSetUnblockHandler);
    SetModuleAttribs(ctx, "caller", 1, 1);
    if (CreateCommand(ctx, "caller.call", call, "", 0, 0, 0) != OK) return ERR;
    return CreateCommand(ctx, "caller.login", login, "", 0, 0, 0);
}
