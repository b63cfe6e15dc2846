// Runs the cases of a file with node's `pg`, and prints what the driver sees: the same program straight and through the
// gateway. Its output is as that of drivers.py. NODE_PATH says where `pg` is.
//
//     node node.js node PORT DATABASE CASES...

const fs = require('fs');
const { Client } = require('pg');

const [runner, port, database, ...files] = process.argv.slice(2);
const OUT = { way: '', case: '', step: '' };

function say(what, ...parts) {
  const escapes = { '\\': '\\\\', '\n': '\\n', '\t': '\\t', '\r': '\\r' };
  const clean = parts.map((part) => String(part).replace(/[\\\n\t\r]/g, (c) => escapes[c]));
  fs.writeSync(1, [OUT.way, OUT.case, OUT.step, what, ...clean].join('\t') + '\n');
}

function read(files) {
  const lines = [];
  for (const file of files) {
    for (const line of fs.readFileSync(file, 'utf8').split('\n')) {
      if (line.startsWith('  ') && lines.length) lines[lines.length - 1] += '\n' + line.trim();
      else if (line.trim() && !line.startsWith('#')) lines.push(line);
    }
  }
  const cases = [];
  for (const line of lines) {
    const [verb, rest] = cut(line, ' ');
    const last = cases[cases.length - 1];
    const named = (rest || '').split(':')[0].split(' ').includes(runner);
    if (verb === 'case') cases.push({ name: rest, fresh: false, ours: true, steps: [] });
    else if (verb === 'fresh') last.fresh = true;
    else if (verb === 'only') last.ours = last.ours && named;
    else if (verb === 'not') last.ours = last.ours && !named;
    else if (verb !== 'pins' && verb !== 'differs') last.steps.push([verb, rest]);
  }
  return cases.filter((one) => one.ours);
}

function cut(text, at) {
  const place = text.indexOf(at);
  return place < 0 ? [text, undefined] : [text.slice(0, place), text.slice(place + at.length)];
}

function unescaped(text) {
  const meant = { n: '\n', t: '\t', '\\': '\\' };
  return text === '\\' ? '' : text.replace(/\\(.)/g, (_, c) => meant[c]);
}

function split(rest) {
  const [sql, tail] = cut(rest, ' <- ');
  const parameters = tail === undefined ? [] : tail.split(' | ').map((one) => {
    const [kind, value] = cut(one, '=');
    return native(kind.trim(), value === undefined ? null : unescaped(value));
  });
  return [sql, parameters];
}

/** A parameter as JavaScript has it; what it has not is a text. */
function native(kind, text) {
  if (text === null) return null;
  if (kind.endsWith('[]')) return text.slice(1, -1).split(',').map((item) => native(kind.slice(0, -2), item));
  if (kind === 'bool') return text === 't';
  if (['int2', 'int4', 'float4', 'float8'].includes(kind)) return Number(text);
  if (kind === 'bytea') return Buffer.from(text.slice(2), 'hex');
  if (kind === 'timestamptz') return new Date(text);
  return text;
}

function shown(value) {
  if (Buffer.isBuffer(value)) return 'bytes ' + value.toString('hex');
  if (value instanceof Date) return 'date ' + (isNaN(value) ? 'invalid' : value.toISOString());
  if (Object.is(value, -0)) return 'number -0';
  return typeof value + ' ' + (typeof value === 'object' ? JSON.stringify(value) : String(value));
}

class Session {
  constructor(way) {
    this.way = way;
    this.known = new Map();
    this.client = new Client({ host: '127.0.0.1', port: Number(port), user: 'ann', database });
    this.client.on('notice', (notice) => say('notice', ...this.fields(notice)));
    this.client.on('notification', (heard) => say('notify', heard.channel, heard.payload));
    this.client.on('error', (error) => say('lost', error.message));
  }

  fields(told) {
    const names = ['severity', 'code', 'message', 'detail', 'hint', 'position', 'internalPosition', 'internalQuery',
      'where', 'schema', 'table', 'column', 'dataType', 'constraint', 'file', 'line', 'routine'];
    return names.filter((name) => told[name] !== undefined).map((name) => `${name}=${told[name]}`);
  }

  show(results) {
    for (const result of Array.isArray(results) ? results : [results]) {
      const columns = result.fields.map((f) => `${f.name} ${f.dataTypeID} ${f.dataTypeSize} ${f.dataTypeModifier} ${tableOf(f)} ${f.columnID} ${f.format}`);
      say('columns', ...columns);
      for (const row of result.rows) say('row', ...row.map(shown));
      say('tag', result.command, result.rowCount, result.oid);
    }
  }

  async query(config) {
    this.show(await this.client.query({ rowMode: 'array', ...config }));
  }

  async step(verb, rest) {
    const [sql, values] = split(rest || '');
    const binary = this.way === 'binary';
    switch (verb) {
      case 'run':
        return this.query(values.length || binary ? { text: sql, values, binary } : { text: sql });
      case 'simple':
        return this.query({ text: rest });
      case 'prepare':
        this.known.set(...cut(rest, ' '));
        return undefined;
      case 'execute':
        return this.query({ name: this.nameOf(sql), text: this.known.get(sql), values, binary });
      case 'close':
        return this.query({ text: `deallocate "${this.nameOf(rest)}"` });
      case 'fetch': {
        const [count, text] = cut(sql, ' ');
        await this.client.query('begin');
        return this.query({ text, values, binary, rows: Number(count) }).finally(() => this.client.query('rollback'));
      }
      case 'cancel':
        return this.cancel(sql);
      default:
        throw new Error(`no such verb: ${verb}`);
    }
  }

  /** Its statements have names of their own in every case: the driver never forgets what a name once meant. */
  nameOf(name) {
    return `${OUT.case.slice(0, 40)} ${name}`;
  }

  async cancel(sql) {
    const running = this.query({ text: sql });
    // It is looked at below, when it has been cancelled.
    running.catch(() => undefined);
    const watcher = new Client({ host: '127.0.0.1', port: Number(port), user: 'ann', database });
    await watcher.connect();
    const sleeping = "select 1 from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'";
    while ((await watcher.query(sleeping)).rowCount === 0);
    await watcher.end();
    const canceller = new Client({ host: '127.0.0.1', port: Number(port), user: 'ann', database });
    const active = this.client._getActiveQuery();
    if (active) {
      // Until the server hangs up, a signal may be on its way that would end the next query.
      const gone = new Promise((resolve) => canceller.connection.once('end', resolve));
      canceller.cancel(this.client, active);
      await gone;
    }
    return running;
  }
}

/** Tables that a case made are numbered as they come. */
function tableOf(field) {
  return field.tableID >= Number(process.env.PUNCTUAL_NEW_OIDS || Infinity) ? 'new' : field.tableID;
}

async function main() {
  const cases = read(files);
  for (const way of ['text', 'binary']) {
    OUT.way = way;
    const shared = new Session(way);
    await shared.client.connect();
    for (const one of cases) {
      OUT.case = one.name;
      let session = shared;
      if (one.fresh) {
        session = new Session(way);
        await session.client.connect();
      }
      for (const [number, [verb, rest]] of one.steps.entries()) {
        OUT.step = String(number + 1);
        try {
          await session.step(verb, rest);
          say('done');
        } catch (error) {
          say('error', error.constructor.name, error.message, ...session.fields(error));
        }
      }
      if (session.client.getTransactionStatus() !== 'I') await session.client.query('rollback');
      if (one.fresh) await session.client.end();
    }
    await shared.client.end();
  }
  Object.assign(OUT, { way: '', case: '', step: '' });
  say('end');
}

main();
