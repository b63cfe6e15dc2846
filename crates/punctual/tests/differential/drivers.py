"""Runs the cases of a file with one of Python's drivers, and prints what the driver sees.

    python drivers.py DRIVER PORT DATABASE CASES...

One line for each thing that is seen: way, case, step, what, and its parts, between tabs. The same program is run
straight and through the gateway: whatever it prints, it prints of both.
"""

import asyncio
import datetime
import decimal
import io
import os
import re
import sys
import threading
import uuid


class Case:
    """A case of the file: its name, whether its session is its own, who runs it, and its steps."""

    def __init__(self, name):
        self.name, self.fresh, self.only, self.without, self.steps = name, False, [], [], []

    def is_for(self, runner):
        return (not self.only or runner in self.only) and runner not in self.without


def cases_of(files):
    cases, lines = [], []
    for file in files:
        for line in open(file, encoding="utf-8").read().splitlines():
            if line.startswith("  ") and lines:
                lines[-1] += "\n" + line.strip()
            elif line.strip() and not line.startswith("#"):
                lines.append(line)
    for line in lines:
        verb, _, rest = line.partition(" ")
        if verb == "case":
            cases.append(Case(rest))
        elif verb == "fresh":
            cases[-1].fresh = True
        elif verb == "only":
            cases[-1].only += rest.partition(":")[0].split()
        elif verb == "not":
            cases[-1].without += rest.partition(":")[0].split()
        elif verb not in ("pins", "differs"):
            cases[-1].steps.append((verb, rest))
    return cases


def unescaped(text):
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t", "\\": "\\"}[m[1]], text.removesuffix("\\") if text == "\\" else text)


def split(rest):
    """A statement and its parameters, each a type and a text or None."""
    sql, arrow, tail = rest.partition(" <- ")
    parameters = []
    for one in tail.split(" | ") if arrow else []:
        kind, equals, value = one.partition("=")
        parameters.append((kind.strip(), unescaped(value) if equals else None))
    return sql, parameters


def native(kind, text):
    """A parameter as Python has it."""
    if text is None:
        return None
    if kind.endswith("[]"):
        return [native(kind[:-2], item) for item in text.strip("{}").split(",")]
    timestamp = datetime.datetime.fromisoformat
    makers = {
        "bool": lambda t: t == "t", "int2": int, "int4": int, "int8": int, "float4": float, "float8": float,
        "numeric": decimal.Decimal, "text": str, "bytea": lambda t: bytes.fromhex(t[2:]), "uuid": uuid.UUID,
        "date": datetime.date.fromisoformat, "timestamp": timestamp, "timestamptz": timestamp,
    }
    return makers[kind](text)


def shown(value):
    """A value and its type, the same for the same."""
    if isinstance(value, memoryview):
        value = bytes(value)
    if isinstance(value, (list, tuple)):
        return type(value).__name__ + "(" + ",".join(shown(item) for item in value) + ")"
    if type(value).__module__ == "asyncpg.pgproto.types" and hasattr(value, "points"):
        return type(value).__name__ + shown(value.points)
    return f"{type(value).__name__} {value!r}"


def table_of(oid):
    """A table's id; those that a case made are numbered as they come."""
    return "new" if oid >= int(os.environ.get("PUNCTUAL_NEW_OIDS", 1 << 32)) else oid


class Printer:
    def __init__(self):
        self.way = self.case = self.step = ""

    def say(self, what, *parts):
        clean = [str(part).replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") for part in parts]
        print(self.way, self.case, self.step, what, *clean, sep="\t", flush=True)


OUT = Printer()

# How many queries of a database sleep.
SLEEPING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"


class Driver:
    """What a driver can do. Each method says what comes of it; a mistake is raised."""

    def __init__(self, name, port, database):
        self.name, self.port, self.database = name, port, database
        self.address = dict(host="127.0.0.1", port=port, user="ann")

    ways = [""]
    always_fresh = False

    def cancel_when_asleep(self, cancel, main):
        """Runs `main` here, and `cancel` once as soon as its query sleeps."""
        def watch():
            watcher = type(self)(self.name, self.port, self.database)
            watcher.open("")
            while watcher.number(SLEEPING) == 0:
                pass
            watcher.shut()
            cancel()
        thread = threading.Thread(target=watch)
        thread.start()
        try:
            main()
        finally:
            thread.join()

    def settle(self):
        """Says what came besides, and has not been said."""

    def simple(self, sql):
        self.run(sql, [])

    def prepare(self, name, sql):
        self.known = getattr(self, "known", {})
        self.known[name] = sql

    def execute(self, name, parameters):
        self.run(self.known[name], parameters)

    def close(self, name):
        self.known.pop(name, None)


class Psycopg(Driver):
    ways = ["text", "binary", "prepared"]

    def open(self, way):
        import psycopg

        self.psycopg, self.way = psycopg, way
        self.connection = psycopg.connect(**self.address, dbname=self.database, autocommit=True, cursor_factory=psycopg.RawCursor)
        self.connection.add_notice_handler(lambda notice: OUT.say("notice", *self.fields(notice)))

    def shut(self):
        self.connection.close()

    def tidy(self):
        if self.connection.info.transaction_status != self.psycopg.pq.TransactionStatus.IDLE:
            self.connection.rollback()

    def fields(self, diagnostic):
        names = [name for name in dir(diagnostic) if not name.startswith("_")]
        return [f"{name}={getattr(diagnostic, name)}" for name in names if getattr(diagnostic, name) is not None]

    def describe(self, error):
        return [type(error).__name__, *self.fields(error.diag)] if isinstance(error, self.psycopg.Error) else [repr(error)]

    def show(self, cursor):
        while True:
            result = cursor.pgresult
            columns = range(result.nfields)
            if result.nfields:
                OUT.say("columns", *(f"{result.fname(c)} {result.ftype(c)} {result.fmod(c)} {result.fsize(c)} {table_of(result.ftable(c))} {result.ftablecol(c)} {result.fformat(c)}" for c in columns))
            for r in range(result.ntuples):
                OUT.say("row", *(result.get_value(r, c) for c in columns))
            if result.nfields and self.way != "binary":
                OUT.say("read", *(shown(row) for row in cursor.fetchall()))
            OUT.say("tag", cursor.statusmessage)
            if not cursor.nextset():
                return

    def run(self, sql, parameters):
        values = [native(*parameter) for parameter in parameters]
        cursor = self.connection.cursor(binary=self.way == "binary")
        self.show(cursor.execute(sql, values or None, prepare=self.way == "prepared", binary=self.way == "binary"))

    def simple(self, sql):
        self.show(self.connection.cursor().execute(sql))

    def execute(self, name, parameters):
        values = [native(*parameter) for parameter in parameters]
        cursor = self.connection.cursor(binary=self.way == "binary")
        self.show(cursor.execute(self.known[name], values, prepare=True, binary=self.way == "binary"))

    def fetch(self, count, sql, parameters):
        with self.connection.transaction():
            cursor = self.psycopg.RawServerCursor(self.connection, "portion")
            cursor.execute(sql, [native(*parameter) for parameter in parameters] or None)
            while rows := cursor.fetchmany(count):
                OUT.say("portion", *(shown(row) for row in rows))
            cursor.close()

    def pipeline(self, statements):
        cursors = []
        try:
            with self.connection.pipeline():
                for sql in statements:
                    cursor = self.connection.cursor(binary=self.way == "binary")
                    cursors.append(cursor)
                    cursor.execute(sql, prepare=self.way == "prepared")
        finally:
            # How many statements it had taken on when it heard of the mistake is a matter of time.
            for cursor in cursors:
                if cursor.statusmessage:
                    OUT.say("piped", cursor.statusmessage, shown(cursor.fetchall()) if cursor.description else "")

    def copyin(self, sql, text):
        cursor = self.connection.cursor()
        with cursor.copy(sql) as copy:
            copy.write(text)
        OUT.say("tag", cursor.statusmessage)

    def copyout(self, sql):
        cursor = self.connection.cursor()
        with cursor.copy(sql) as copy:
            OUT.say("copied", *(bytes(part) for part in copy))
        OUT.say("tag", cursor.statusmessage)

    def cancel(self, sql):
        self.cancel_when_asleep(self.connection.cancel, lambda: self.run(sql, []))

    def number(self, sql):
        return self.connection.execute(sql).fetchone()[0]


class Psycopg2(Driver):
    def open(self, way):
        import psycopg2

        self.psycopg2 = psycopg2
        self.connection = psycopg2.connect(**self.address, dbname=self.database)
        self.connection.autocommit = True

    def shut(self):
        self.connection.close()

    def tidy(self):
        if self.connection.info.transaction_status != 0:
            self.connection.cursor().execute("rollback")
        self.hear()

    def hear(self):
        for notice in self.connection.notices:
            OUT.say("notice", notice)
        del self.connection.notices[:]
        self.connection.poll()
        for notify in self.connection.notifies:
            OUT.say("notify", notify.channel, notify.payload)
        del self.connection.notifies[:]

    def describe(self, error):
        self.hear()
        if not isinstance(error, self.psycopg2.Error):
            return [repr(error)]
        fields = [f"{name}={getattr(error.diag, name)}" for name in dir(error.diag) if not name.startswith("_")]
        return [type(error).__name__, error.pgcode, *fields]

    def run(self, sql, parameters):
        with self.connection.cursor() as cursor:
            values = {f"p{n}": self.value(*parameter) for n, parameter in enumerate(parameters, 1)}
            cursor.execute(re.sub(r"\$(\d+)", r"%(p\1)s", sql.replace("%", "%%")) if values else sql, values or None)
            self.hear()
            if cursor.description:
                OUT.say("columns", *(tuple(column) for column in cursor.description))
                for row in cursor.fetchall():
                    OUT.say("row", shown(row))
            OUT.say("tag", cursor.statusmessage, cursor.rowcount)

    def value(self, kind, text):
        # What it has no adapter for is a text that is cast.
        return text if kind == "uuid" else native(kind, text)

    def fetch(self, count, sql, parameters):
        with self.connection.cursor() as cursor:
            cursor.execute("begin")
        portion = self.connection.cursor()
        values = {f"p{n}": self.value(*parameter) for n, parameter in enumerate(parameters, 1)}
        portion.execute("declare portion cursor for " + re.sub(r"\$(\d+)", r"%(p\1)s", sql), values)
        while True:
            portion.execute(f"fetch {count} from portion")
            rows = portion.fetchall()
            OUT.say("portion", *(shown(row) for row in rows))
            if not rows:
                break
        portion.execute("commit")

    def copyin(self, sql, text):
        with self.connection.cursor() as cursor:
            cursor.copy_expert(sql, io.StringIO(text))
            OUT.say("tag", cursor.statusmessage, cursor.rowcount)

    def copyout(self, sql):
        with self.connection.cursor() as cursor:
            to = io.BytesIO()
            try:
                cursor.copy_expert(sql, to)
            finally:
                OUT.say("copied", to.getvalue())
            OUT.say("tag", cursor.statusmessage, cursor.rowcount)

    def cancel(self, sql):
        self.cancel_when_asleep(self.connection.cancel, lambda: self.run(sql, []))

    def number(self, sql):
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone()[0]


class Pg8000(Driver):
    def open(self, way):
        import pg8000.dbapi

        self.pg8000 = pg8000
        self.connection = pg8000.dbapi.connect(**self.address, database=self.database)
        self.connection.autocommit = True

    def shut(self):
        self.connection.close()

    def tidy(self):
        if self.connection._in_transaction:
            self.connection.execute_simple("rollback")
        self.hear()

    def hear(self):
        for notice in self.connection.notices:
            OUT.say("notice", sorted(notice.items()))
        self.connection.notices.clear()
        for notification in self.connection.notifications:
            OUT.say("notify", *notification[1:])
        self.connection.notifications.clear()

    def describe(self, error):
        self.hear()
        told = error.args[0] if error.args else None
        return [type(error).__name__, sorted(told.items()) if isinstance(told, dict) else error.args]

    def show(self, context):
        self.hear()
        if context.columns:
            OUT.say("columns", *(sorted((k, table_of(v) if k == "table_oid" else v) for k, v in column.items() if k != "func") for column in context.columns))
        for row in context.rows or []:
            OUT.say("row", shown(row))
        OUT.say("tag", context.row_count)

    def run(self, sql, parameters):
        if parameters:
            self.show(self.connection.execute_unnamed(sql, vals=[native(*parameter) for parameter in parameters]))
        else:
            self.show(self.connection.execute_simple(sql))

    def prepare(self, name, sql):
        from pg8000.native import PreparedStatement

        super().prepare(name, sql)
        self.statements = getattr(self, "statements", {})
        self.statements[name] = self.connection.prepare_statement(sql, ()) if "$" not in sql else None

    def execute(self, name, parameters):
        values = [native(*parameter) for parameter in parameters]
        made = self.statements[name]
        if made is None:
            self.run(self.known[name], parameters)
        else:
            name_bin, columns, input_funcs = made
            self.show(self.connection.execute_named(name_bin, values, columns, input_funcs, self.known[name]))

    def close(self, name):
        if made := self.statements.pop(name, None):
            self.connection.close_prepared_statement(made[0])

    def fetch(self, count, sql, parameters):
        self.connection.execute_simple("begin")
        values = [native(*parameter) for parameter in parameters]
        self.connection.execute_unnamed("declare portion cursor for " + sql, vals=values)
        while True:
            context = self.connection.execute_simple(f"fetch {count} from portion")
            OUT.say("portion", *(shown(row) for row in context.rows))
            if not context.rows:
                break
        self.connection.execute_simple("commit")

    def copyin(self, sql, text):
        self.show(self.connection.execute_unnamed(sql, stream=io.BytesIO(text.encode())))

    def copyout(self, sql):
        to = io.BytesIO()
        try:
            context = self.connection.execute_unnamed(sql, stream=to)
        finally:
            OUT.say("copied", to.getvalue())
        self.show(context)

    def number(self, sql):
        return self.connection.execute_simple(sql).rows[0][0]


class Asyncpg(Driver):
    ways = ["prepared"]
    always_fresh = True

    def wait(self, awaitable):
        return self.loop.run_until_complete(awaitable)

    def open(self, way):
        import asyncpg

        self.asyncpg = asyncpg
        self.loop = asyncio.new_event_loop()
        self.connection = self.wait(asyncpg.connect(**self.address, database=self.database))
        fields = ("severity_en", "sqlstate", "message", "detail", "hint", "query", "position", "context")
        self.fields = fields + ("schema_name", "table_name", "column_name", "constraint_name", "data_type_name", "internal_query", "internal_position", "server_source_function")
        # They are called when the loop comes to it, whatever has come meanwhile.
        self.heard = []
        self.connection.add_log_listener(lambda _, notice: self.heard.append(notice))

    def shut(self):
        self.wait(self.connection.close())
        self.loop.close()

    def tidy(self):
        if self.connection.is_in_transaction():
            self.wait(self.connection.execute("rollback"))

    def settle(self):
        self.wait(asyncio.sleep(0))
        for notice in self.heard:
            OUT.say("notice", *self.told(notice))
        self.heard.clear()

    def told(self, error):
        return [f"{name}={getattr(error, name, None)}" for name in self.fields if getattr(error, name, None) is not None]

    def describe(self, error):
        return [type(error).__name__, str(error), *self.told(error)]

    def show(self, statement, rows):
        OUT.say("columns", *((a.name, a.type.oid, a.type.name, a.type.kind, a.type.schema) for a in statement.get_attributes()))
        OUT.say("parameters", *((p.oid, p.name) for p in statement.get_parameters()))
        for row in rows:
            OUT.say("row", shown(tuple(tuple(v) if isinstance(v, self.asyncpg.Record) else v for v in row.values())))
        OUT.say("tag", statement.get_statusmsg())

    def run(self, sql, parameters):
        values = [native(*parameter) for parameter in parameters]
        statement = self.wait(self.connection.prepare(sql))
        self.show(statement, self.wait(statement.fetch(*values)))

    def simple(self, sql):
        OUT.say("tag", self.wait(self.connection.execute(sql)))

    def prepare(self, name, sql):
        self.known = getattr(self, "known", {})
        self.known[name] = self.wait(self.connection.prepare(sql))

    def execute(self, name, parameters):
        statement = self.known[name]
        self.show(statement, self.wait(statement.fetch(*(native(*parameter) for parameter in parameters))))

    def fetch(self, count, sql, parameters):
        async def portions():
            async with self.connection.transaction():
                cursor = await self.connection.cursor(sql, *(native(*parameter) for parameter in parameters))
                while rows := await cursor.fetch(count):
                    OUT.say("portion", *(shown(tuple(row)) for row in rows))
        self.wait(portions())

    def copyin(self, sql, text):
        OUT.say("tag", self.wait(self.connection._copy_in(sql, io.BytesIO(text.encode()), None)))

    def copyout(self, sql):
        to = io.BytesIO()
        async def write(part):
            to.write(part)
        try:
            tag = self.wait(self.connection._copy_out(sql, write, None))
        finally:
            OUT.say("copied", to.getvalue())
        OUT.say("tag", tag)

    def cancel(self, sql):
        async def main():
            watcher = await self.asyncpg.connect(**self.address, database=self.database)
            running = asyncio.ensure_future(self.connection.fetch(sql))
            while not await watcher.fetchval(SLEEPING):
                pass
            await watcher.close()
            # Cancelling the task sends a cancel request, and the next statement waits for what becomes of it.
            running.cancel()
            try:
                await running
            except asyncio.CancelledError:
                OUT.say("cancelled")
        self.wait(main())


class Alchemy(Driver):
    def open(self, way):
        import sqlalchemy

        self.sqlalchemy = sqlalchemy
        driver = self.name.partition("+")[2]
        self.url = f"postgresql+{driver}://ann@127.0.0.1:{self.port}/{self.database}"
        self.engine = sqlalchemy.create_engine(self.url, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.pool.StaticPool)
        self.connection = self.engine.connect()

    def shut(self):
        self.connection.close()
        self.engine.dispose()

    def tidy(self):
        self.connection.exec_driver_sql("rollback")

    def describe(self, error):
        cause = getattr(error, "orig", None)
        return [type(error).__name__, type(cause).__name__, getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None), str(cause or error)]

    def text(self, sql):
        """A text as it has them: named parameters, and colons that are none escaped."""
        return self.sqlalchemy.text(re.sub(r"\$(\d+)", r"(:p\1)", re.sub(r"(?<!:):(?!:)", r"\\:", sql)))

    def run(self, sql, parameters):
        values = {f"p{n}": native(*one) for n, one in enumerate(parameters, 1)}
        result = self.connection.execute(self.text(sql), values)
        if result.returns_rows:
            OUT.say("columns", *(tuple(column)[:2] for column in result.cursor.description))
            for row in result:
                OUT.say("row", shown(tuple(row)))
        else:
            OUT.say("count", result.rowcount)

    def fetch(self, count, sql, parameters):
        # Its portions are those of a transaction.
        engine = self.sqlalchemy.create_engine(self.url, poolclass=self.sqlalchemy.pool.NullPool)
        with engine.connect() as connection:
            connection = connection.execution_options(stream_results=True, max_row_buffer=count)
            result = connection.execute(self.text(sql), {f"p{n}": native(*one) for n, one in enumerate(parameters, 1)})
            for rows in result.partitions(count):
                OUT.say("portion", *(shown(tuple(row)) for row in rows))

    def reflect(self, table):
        inspector = self.sqlalchemy.inspect(self.engine)
        if table == "*":
            OUT.say("tables", inspector.get_schema_names(), sorted(inspector.get_table_names()), sorted(inspector.get_view_names()))
            OUT.say("types", inspector.get_enums(), inspector.get_domains())
            return
        for question in ("columns", "pk_constraint", "foreign_keys", "indexes", "unique_constraints", "check_constraints", "table_comment"):
            OUT.say(question, getattr(inspector, "get_" + question)(table))

    def number(self, sql):
        return self.connection.exec_driver_sql(sql).scalar()


DRIVERS = {"psycopg": Psycopg, "psycopg2": Psycopg2, "pg8000": Pg8000, "asyncpg": Asyncpg}


def step_of(driver, verb, rest):
    sql, parameters = split(rest)
    if verb == "run":
        driver.run(sql, parameters)
    elif verb == "simple":
        driver.simple(rest)
    elif verb == "prepare":
        driver.prepare(*rest.split(" ", 1))
    elif verb == "execute":
        driver.execute(sql, parameters)
    elif verb == "close":
        driver.close(rest)
    elif verb == "fetch":
        count, sql = sql.split(" ", 1)
        driver.fetch(int(count), sql, parameters)
    elif verb == "pipeline":
        driver.pipeline(rest.split(" ;; "))
    elif verb == "copyin":
        sql, _, text = rest.partition(" <- ")
        driver.copyin(sql, unescaped(text))
    elif verb in ("copyout", "cancel", "reflect"):
        getattr(driver, verb)(rest)
    else:
        raise AssertionError(f"no such verb: {verb}")


def main():
    name, port, database, *files = sys.argv[1:]
    cases = [case for case in cases_of(files) if case.is_for(name)]
    make = DRIVERS.get(name, Alchemy)
    for way in make.ways:
        OUT.way = way or "plain"
        shared = make(name, int(port), database)
        shared.open(way)
        for case in cases:
            OUT.case, OUT.step = case.name, "0"
            driver, fresh = shared, case.fresh or make.always_fresh
            if fresh:
                driver = make(name, int(port), database)
                driver.open(way)
            for number, (verb, rest) in enumerate(case.steps, 1):
                OUT.step = str(number)
                try:
                    step_of(driver, verb, rest)
                    driver.settle()
                    OUT.say("done")
                except (AttributeError, AssertionError):
                    raise
                except Exception as error:
                    driver.settle()
                    OUT.say("error", *driver.describe(error))
            driver.tidy()
            if fresh:
                driver.shut()
        shared.shut()
    OUT.way, OUT.case, OUT.step = "", "", ""
    OUT.say("end")


main()
