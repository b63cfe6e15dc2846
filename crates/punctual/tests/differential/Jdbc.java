// Runs the cases of a file with pgjdbc, and prints what the driver sees: the same program straight and through the
// gateway. Its output is as that of drivers.py.
//
//     java -cp postgresql.jar Jdbc.java pgjdbc PORT DATABASE CASES...

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Array;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Statement;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.PGResultSetMetaData;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

public class Jdbc {
    static final PrintStream OUT = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, StandardCharsets.UTF_8);

    record Step(String verb, String rest) {}

    record Parameter(String kind, String text) {}

    /** A statement, and which parameter each of its question marks is. */
    record Prepared(PreparedStatement statement, List<Integer> places) {}

    static class Case {
        String name;
        boolean fresh, isForUs = true;
        List<Step> steps = new ArrayList<>();
    }

    /** How the driver is told to talk. */
    enum Way { EXTENDED, BINARY, SIMPLE }

    final int port;
    final String database;
    final Way way;
    final Connection connection;
    final Map<String, Prepared> prepared = new HashMap<>();

    static String caseName = "", wayName = "";
    static int step;

    Jdbc(int port, String database, Way way) throws SQLException {
        this.port = port;
        this.database = database;
        this.way = way;
        Properties properties = new Properties();
        properties.setProperty("user", "ann");
        switch (way) {
            case EXTENDED -> { }
            case BINARY -> properties.setProperty("prepareThreshold", "-1");
            case SIMPLE -> properties.setProperty("preferQueryMode", "simple");
        }
        connection = DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + port + "/" + database, properties);
    }

    public static void main(String[] args) throws Exception {
        java.util.TimeZone.setDefault(java.util.TimeZone.getTimeZone("UTC"));
        List<Case> cases = new ArrayList<>();
        for (String file : Arrays.copyOfRange(args, 3, args.length)) {
            read(file, args[0], cases);
        }
        for (Way way : Way.values()) {
            wayName = way.name().toLowerCase();
            Jdbc shared = new Jdbc(Integer.parseInt(args[1]), args[2], way);
            for (Case one : cases) {
                if (one.isForUs) {
                    caseName = one.name;
                    Jdbc session = one.fresh ? new Jdbc(shared.port, shared.database, way) : shared;
                    session.all(one.steps);
                    if (one.fresh) {
                        session.connection.close();
                    }
                }
            }
            shared.connection.close();
        }
        OUT.println("\t\t\tend");
    }

    static void read(String file, String runner, List<Case> cases) throws Exception {
        List<String> lines = new ArrayList<>();
        for (String line : Files.readString(Path.of(file)).split("\n")) {
            if (line.startsWith("  ") && !lines.isEmpty()) {
                lines.set(lines.size() - 1, lines.get(lines.size() - 1) + "\n" + line.strip());
            } else if (!line.isBlank() && !line.startsWith("#")) {
                lines.add(line);
            }
        }
        for (String line : lines) {
            String verb = line.split(" ", 2)[0], rest = line.contains(" ") ? line.split(" ", 2)[1] : "";
            Case last = cases.isEmpty() ? null : cases.get(cases.size() - 1);
            boolean named = Arrays.asList(rest.split(":")[0].split(" ")).contains(runner);
            switch (verb) {
                case "case" -> {
                    Case made = new Case();
                    made.name = rest;
                    cases.add(made);
                }
                case "fresh" -> last.fresh = true;
                case "only" -> last.isForUs &= named;
                case "not" -> last.isForUs &= !named;
                case "pins", "differs" -> { }
                default -> last.steps.add(new Step(verb, rest));
            }
        }
    }

    void all(List<Step> steps) throws Exception {
        step = 0;
        for (Step one : steps) {
            step++;
            try {
                take(one);
                notifications();
                say("done");
            } catch (SQLException error) {
                describe(error);
            }
        }
        for (Prepared left : prepared.values()) {
            left.statement.close();
        }
        prepared.clear();
        connection.setAutoCommit(true);
        if (((org.postgresql.core.BaseConnection) connection).getTransactionState() != org.postgresql.core.TransactionState.IDLE) {
            try (Statement statement = connection.createStatement()) {
                statement.execute("rollback");
            }
        }
    }

    void take(Step one) throws Exception {
        String[] halves = one.rest.split(" <- ", 2);
        String sql = halves[0];
        switch (one.verb) {
            case "run" -> run(sql, parameters(one.rest));
            case "simple" -> run(one.rest, List.of());
            case "prepare" -> {
                String name = sql.split(" ", 2)[0], text = sql.split(" ", 2)[1];
                prepared.put(name, new Prepared(connection.prepareStatement(marked(text)), places(text)));
            }
            case "execute" -> executes(prepared.get(sql).statement, prepared.get(sql).places, parameters(one.rest));
            case "close" -> prepared.remove(sql).statement.close();
            case "fetch" -> fetch(Integer.parseInt(sql.split(" ", 2)[0]), sql.split(" ", 2)[1], parameters(one.rest));
            case "copyin" -> copyIn(sql, halves.length > 1 ? unescaped(halves[1]) : "");
            case "copyout" -> copyOut(one.rest);
            case "cancel" -> cancel(one.rest);
            case "reflect" -> reflect(one.rest);
            default -> throw new IllegalStateException("no such verb: " + one.verb);
        }
    }

    void run(String sql, List<Parameter> parameters) throws SQLException {
        if (parameters.isEmpty()) {
            try (Statement statement = connection.createStatement()) {
                try {
                    show(statement, statement.execute(sql));
                } finally {
                    warnings(statement.getWarnings());
                }
            }
            return;
        }
        try (PreparedStatement statement = connection.prepareStatement(marked(sql))) {
            executes(statement, places(sql), parameters);
        }
    }

    void executes(PreparedStatement statement, List<Integer> places, List<Parameter> parameters) throws SQLException {
        for (int i = 0; i < places.size(); i++) {
            set(statement, i + 1, parameters.get(places.get(i) - 1));
        }
        try {
            show(statement, statement.execute());
        } finally {
            warnings(statement.getWarnings());
            statement.clearWarnings();
        }
    }

    /** A text with question marks, as JDBC has it, and those of operators doubled. */
    static String marked(String sql) {
        return sql.replace("?", "??").replaceAll("\\$\\d+", "?");
    }

    /** Which parameter each question mark is. */
    static List<Integer> places(String sql) {
        List<Integer> found = new ArrayList<>();
        Matcher matcher = Pattern.compile("\\$(\\d+)").matcher(sql);
        while (matcher.find()) {
            found.add(Integer.parseInt(matcher.group(1)));
        }
        return found;
    }

    void set(PreparedStatement statement, int at, Parameter parameter) throws SQLException {
        String text = parameter.text;
        Object value = text == null ? null : switch (parameter.kind) {
            case "bool" -> text.equals("t");
            case "int2" -> Short.parseShort(text);
            case "int4" -> Integer.parseInt(text);
            case "int8" -> Long.parseLong(text);
            case "float4" -> Float.parseFloat(text);
            case "float8" -> Double.parseDouble(text);
            case "numeric" -> new BigDecimal(text);
            case "bytea" -> HexFormat.of().parseHex(text.substring(2));
            case "uuid" -> UUID.fromString(text);
            case "date" -> LocalDate.parse(text);
            case "timestamp" -> LocalDateTime.parse(text.replace(' ', 'T'));
            case "timestamptz" -> OffsetDateTime.parse(text.replace(' ', 'T'));
            case "int4[]" -> connection.createArrayOf("int4", Arrays.stream(inside(text)).map(Integer::valueOf).toArray());
            case "text[]" -> connection.createArrayOf("text", inside(text));
            default -> text;
        };
        statement.setObject(at, value);
    }

    static String[] inside(String array) {
        return array.substring(1, array.length() - 1).split(",");
    }

    void show(Statement statement, boolean rows) throws SQLException {
        while (true) {
            if (rows) {
                try (ResultSet result = statement.getResultSet()) {
                    columns(result.getMetaData());
                    rows(result);
                }
            } else if (statement.getUpdateCount() >= 0) {
                say("count", statement.getUpdateCount());
            } else {
                return;
            }
            rows = statement.getMoreResults();
        }
    }

    void columns(ResultSetMetaData meta) throws SQLException {
        List<Object> told = new ArrayList<>();
        for (int i = 1; i <= meta.getColumnCount(); i++) {
            told.add(String.join(" ", meta.getColumnLabel(i), meta.getColumnTypeName(i), "" + meta.getColumnType(i),
                meta.getColumnClassName(i), "" + meta.getPrecision(i), "" + meta.getScale(i), "" + meta.getColumnDisplaySize(i),
                ((PGResultSetMetaData) meta).getBaseTableName(i), ((PGResultSetMetaData) meta).getBaseColumnName(i),
                "" + ((PGResultSetMetaData) meta).getFormat(i), "" + meta.isNullable(i), "" + meta.isAutoIncrement(i)));
        }
        say("columns", told.toArray());
    }

    void rows(ResultSet result) throws SQLException {
        int width = result.getMetaData().getColumnCount();
        while (result.next()) {
            List<Object> told = new ArrayList<>();
            for (int i = 1; i <= width; i++) {
                told.add(shown(result, i));
            }
            say("row", told.toArray());
        }
    }

    static String shown(ResultSet result, int at) throws SQLException {
        Object value;
        try {
            value = result.getObject(at);
        } catch (SQLException | RuntimeException error) {
            // What Java has no value for still has a text.
            value = error.getClass().getSimpleName() + " " + result.getString(at);
        }
        return shown(value);
    }

    static String shown(Object value) throws SQLException {
        if (value == null) {
            return "null";
        } else if (value instanceof byte[] bytes) {
            return "bytes " + HexFormat.of().formatHex(bytes);
        } else if (value instanceof Array array) {
            return array.getBaseTypeName() + " " + array;
        } else if (value instanceof java.sql.SQLXML xml) {
            return "xml " + xml.getString();
        }
        return value.getClass().getSimpleName() + " " + value;
    }

    void fetch(int count, String sql, List<Parameter> parameters) throws SQLException {
        connection.setAutoCommit(false);
        try (PreparedStatement statement = connection.prepareStatement(marked(sql))) {
            statement.setFetchSize(count);
            List<Integer> places = places(sql);
            for (int i = 0; i < places.size(); i++) {
                set(statement, i + 1, parameters.get(places.get(i) - 1));
            }
            try (ResultSet result = statement.executeQuery()) {
                columns(result.getMetaData());
                rows(result);
            }
            connection.commit();
        } finally {
            if (!connection.getAutoCommit()) {
                connection.rollback();
            }
            connection.setAutoCommit(true);
        }
    }

    void copyIn(String sql, String text) throws Exception {
        long rows = connection.unwrap(PGConnection.class).getCopyAPI()
            .copyIn(sql, new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)));
        say("count", rows);
    }

    void copyOut(String sql) throws Exception {
        ByteArrayOutputStream to = new ByteArrayOutputStream();
        try {
            say("count", connection.unwrap(PGConnection.class).getCopyAPI().copyOut(sql, to));
        } finally {
            say("copied", HexFormat.of().formatHex(to.toByteArray()));
        }
    }

    void cancel(String sql) throws Exception {
        try (Statement statement = connection.createStatement()) {
            Thread watcher = new Thread(() -> {
                String sleeping = "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'";
                try (Connection other = new Jdbc(port, database, way).connection; Statement asks = other.createStatement()) {
                    while (true) {
                        try (ResultSet result = asks.executeQuery(sleeping)) {
                            result.next();
                            if (result.getLong(1) > 0) {
                                break;
                            }
                        }
                    }
                    statement.cancel();
                } catch (SQLException error) {
                    say("watcher", error.toString());
                }
            });
            watcher.start();
            try {
                show(statement, statement.execute(sql));
            } finally {
                watcher.join();
            }
        }
    }

    void reflect(String table) throws SQLException {
        DatabaseMetaData meta = connection.getMetaData();
        if (table.equals("*")) {
            dump("product", meta.getDatabaseProductVersion());
            dump("keywords", meta.getSQLKeywords());
            dump("client", meta.getClientInfoProperties());
            dump("schemas", meta.getSchemas());
            dump("tables", meta.getTables(null, "public", "%", null));
            dump("types", meta.getTypeInfo());
            dump("udts", meta.getUDTs(null, "public", "%", null));
            dump("functions", meta.getFunctions(null, "public", "%"));
            dump("arguments", meta.getFunctionColumns(null, "public", "%", "%"));
            dump("procedures", meta.getProcedures(null, "public", "%"));
            return;
        }
        dump("columns", meta.getColumns(null, "public", table, "%"));
        dump("keys", meta.getPrimaryKeys(null, "public", table));
        dump("imported", meta.getImportedKeys(null, "public", table));
        dump("exported", meta.getExportedKeys(null, "public", table));
        dump("indexes", meta.getIndexInfo(null, "public", table, false, false));
        dump("privileges", meta.getTablePrivileges(null, "public", table));
        dump("best row", meta.getBestRowIdentifier(null, "public", table, DatabaseMetaData.bestRowSession, true));
    }

    void dump(String what, Object told) throws SQLException {
        if (told instanceof ResultSet result) {
            try (result) {
                say(what);
                rows(result);
            }
        } else {
            say(what, told);
        }
    }

    void warnings(SQLWarning warning) {
        for (; warning != null; warning = warning.getNextWarning()) {
            ServerErrorMessage told = warning instanceof org.postgresql.util.PSQLWarning server ? server.getServerErrorMessage() : null;
            say("notice", told == null ? warning.toString() : fields(told));
        }
    }

    void notifications() throws SQLException {
        PGNotification[] heard = connection.unwrap(PGConnection.class).getNotifications();
        for (PGNotification one : heard == null ? new PGNotification[0] : heard) {
            say("notify", one.getName(), one.getParameter());
        }
    }

    void describe(SQLException error) {
        ServerErrorMessage told = error instanceof PSQLException server ? server.getServerErrorMessage() : null;
        say("error", error.getClass().getSimpleName(), error.getSQLState(), told == null ? error.getMessage() : fields(told));
    }

    static String fields(ServerErrorMessage told) {
        return String.join("|", told.getSeverity(), told.getSQLState(), told.getMessage(), told.getDetail(), told.getHint(),
            "" + told.getPosition(), told.getWhere(), told.getSchema(), told.getTable(), told.getColumn(), told.getDatatype(),
            told.getConstraint(), told.getFile(), "" + told.getLine(), told.getRoutine(), told.getInternalQuery(), "" + told.getInternalPosition());
    }

    static List<Parameter> parameters(String rest) {
        String[] halves = rest.split(" <- ", 2);
        List<Parameter> found = new ArrayList<>();
        for (String one : halves.length < 2 ? new String[0] : halves[1].split(" \\| ")) {
            String[] sides = one.split("=", 2);
            found.add(new Parameter(sides[0].strip(), sides.length < 2 ? null : unescaped(sides[1])));
        }
        return found;
    }

    static String unescaped(String text) {
        return text.equals("\\") ? "" : text.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t").replace("\0", "\\");
    }

    static synchronized void say(String what, Object... parts) {
        StringBuilder line = new StringBuilder(wayName + "\t" + caseName + "\t" + step + "\t" + what);
        for (Object part : parts) {
            line.append('\t').append(String.valueOf(part).replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r"));
        }
        OUT.println(line);
    }
}
