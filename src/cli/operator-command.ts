import type { AnswerOf, Operation } from '#admin-api/operation'
import { cleanJson } from '#kernel/base/json'
import type { AdminClient, RequestParts } from './admin-client.ts'
import type { Arguments, Command, CommandContext, ExitCode, OptionSpecs, PositionalSpec } from './command.ts'
import { type IdNoun, resolveId } from './id-prefix.ts'
import { type Output, renderTable } from './output.ts'

/**
 * Commands on the admin API as tables: an operation, its request, and how its answer is printed. `toCommand` resolves
 * abbreviated ids, sends the request to a server or to the store, and prints the answer. The modules of `commands` on
 * approvals, calls, keys, pins, reloads, secrets, sources and usage declare their commands with it. Invariant: `--json`
 * prints the answer in the spelling of the admin API.
 */

/** Cells of a row, by the heading of their column; `null` is shown as `-`. */
export type Columns<Row> = Readonly<
  Record<string, (row: Row, context: CommandContext) => string | number | null>
>

type ArgumentsOf<Options extends OptionSpecs> = Arguments<keyof Options & string>

interface OperatorTable<Options extends OptionSpecs, Declared extends Operation>
  extends Pick<Command, 'name' | 'summary' | 'details' | 'examples'> {
  /** The first positional is the path parameter of the operation; with `id` it may be abbreviated. */
  readonly positionals?: readonly (PositionalSpec & { readonly id?: IdNoun })[]
  readonly options: Options
  readonly operation: Declared
  client(args: ArgumentsOf<Options>, context: CommandContext): AdminClient | Promise<AdminClient>
  /** Builds the query and the body; `toCommand` adds the path parameter. */
  request?(args: ArgumentsOf<Options>, context: CommandContext): RequestParts | Promise<RequestParts>
  /** Shown on a terminal while the answer is awaited. */
  readonly waiting?: string
  /** Prints notes on stderr after the data, also with `--json`. */
  note?(answer: AnswerOf<Declared>, printing: Printing<Options>): void
  exit?(answer: AnswerOf<Declared>): ExitCode
}

interface Printing<Options extends OptionSpecs> {
  readonly args: ArgumentsOf<Options>
  readonly context: CommandContext
  readonly output: Output
}

interface ActionTable<Options extends OptionSpecs, Declared extends Operation>
  extends OperatorTable<Options, Declared> {
  /** The part of the answer that `--json` prints. Default: all of it. */
  json?(answer: AnswerOf<Declared>, args: ArgumentsOf<Options>): object
  /** Prints lines for people; not called with `--json`. */
  print(answer: AnswerOf<Declared>, printing: Printing<Options>): void
}

/** A command that shows one thing or changes something. */
export function operatorCommand<const Options extends OptionSpecs, Declared extends Operation>(
  table: ActionTable<Options, Declared>,
): Command<keyof Options & string> {
  return toCommand(table, (answer, printing) => {
    const { args, context, output } = printing
    if (context.json) output.data(cleanJson(table.json?.(answer, args) ?? answer))
    else table.print(answer, printing)
  })
}

interface ListTable<Options extends OptionSpecs, Declared extends Operation, Row extends object>
  extends OperatorTable<Options, Declared>,
    Omit<RowsTable<Row>, 'empty'> {
  rows(answer: AnswerOf<Declared>): readonly Row[]
  /** Printed instead of an empty table. */
  readonly empty: string | ((args: ArgumentsOf<Options>) => string)
}

/** A command that lists things: `--json` prints the rows. */
export function listCommand<
  const Options extends OptionSpecs,
  Declared extends Operation,
  Row extends object,
>(table: ListTable<Options, Declared, Row>): Command<keyof Options & string> {
  return toCommand(table, (answer, { args, context }) => {
    const empty = typeof table.empty === 'string' ? table.empty : table.empty(args)
    printRows(table.rows(answer), { ...table, empty }, context)
  })
}

interface RowsTable<Row> {
  readonly columns: Columns<Row>
  readonly empty: string
  /** Cuts the last column at the width of the terminal. */
  readonly fitsTerminal?: true
}

export function printRows<Row extends object>(
  rows: readonly Row[],
  { columns, empty, fitsTerminal }: RowsTable<Row>,
  context: CommandContext,
): void {
  const { output, json } = context
  if (json) output.data(cleanJson(rows))
  else if (rows.length === 0) output.note(empty)
  else {
    const cells = rows.map((row) => Object.values(columns).map((cell) => String(cell(row, context) ?? '-')))
    for (const line of renderTable(Object.keys(columns), cells, fitsTerminal && output.width))
      output.data(line)
  }
}

function toCommand<Options extends OptionSpecs, Declared extends Operation>(
  table: OperatorTable<Options, Declared>,
  print: (answer: AnswerOf<Declared>, printing: Printing<Options>) => void,
): Command<keyof Options & string> {
  const { positionals = [], operation, waiting } = table
  return {
    ...table,
    async run(args, context) {
      const { output } = context
      const parts = (await table.request?.(args, context)) ?? {}
      const client = await table.client(args, context)
      const [typed = ''] = args.positionals
      const noun = positionals[0]?.id
      const id = noun === undefined ? typed : await resolveId(noun, typed, client)
      const asking = client.ask(operation, { id, ...parts })
      const answer = await (waiting === undefined ? asking : output.during(waiting, asking))
      const printing = { args, context, output }
      print(answer, printing)
      table.note?.(answer, printing)
      return table.exit?.(answer)
    },
  }
}
