import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect, useState } from 'react'
import { useSession } from '../../api/session.ts'
import { Button } from '../../parts/button.tsx'
import { Field, TextInput } from '../../parts/field.tsx'
import { formatDuration } from '../../parts/format.ts'
import { Note, StateMark, ToolName } from '../../parts/meaning.tsx'
import { Failed, Loading } from '../../parts/states.tsx'
import { isRecord } from '../tool/tool-data.ts'
import { type Answer, useCall } from '../tool/use-call.ts'
import { type FirstTool, firstToolQuery, inputOf } from './first-tool.ts'

interface TryStepProps {
  /** It was done before: the next step is what to do now. */
  readonly isDone: boolean
  /** Hears the command that does the same. */
  readonly onEcho: (command: string) => void
  readonly onDone: () => void
}

/** A real call of a real tool, right here. */
export function TryStep({ isDone, onEcho, onDone }: TryStepProps): ReactNode {
  const found = useQuery(firstToolQuery)
  const session = useSession()
  if (found.error !== null)
    return (
      <Failed what="The tools could not be read" error={found.error} onRetry={() => void found.refetch()} />
    )
  if (found.data === undefined) return <Loading what="a tool" rows={2} />
  const { first, count } = found.data
  if (session?.server.isOpen === false && session.principal?.isOperator === true)
    return (
      <p className="soft">
        The link signs you in to look after the server; it calls no tools. Create a key in{' '}
        <Link className="link" to="/settings">
          Settings
        </Link>
        , and sign in with it to try one.
      </p>
    )
  if (first === null)
    return (
      <p className="soft">
        {count === 0
          ? 'There are no tools here yet. Add a source first: its tools appear in the catalog.'
          : 'Choose one in the '}
        {count > 0 && (
          <>
            <Link className="link" to="/catalog">
              catalog
            </Link>
            : each has a page to try it.
          </>
        )}
      </p>
    )
  return <TryTool {...first} isDone={isDone} onEcho={onEcho} onDone={onDone} />
}

function TryTool({ tool, fields, isDone, onEcho, onDone }: FirstTool & TryStepProps): ReactNode {
  const [values, setValues] = useState<Readonly<Record<string, string>>>({})
  const { phase, run } = useCall(tool)
  const input = inputOf(fields, values)
  const command = `collet call ${tool.base} '${JSON.stringify(input).replaceAll("'", `'\\''`)}'`
  useEffect(() => onEcho(command), [command, onEcho])
  const isAnswered = phase.at === 'answered'
  useEffect(() => {
    if (isAnswered) onDone()
  }, [isAnswered, onDone])
  return (
    <>
      <p className="soft">
        <Link className="tool-name-link" to="/tools/$id" params={{ id: tool.base }}>
          <ToolName name={tool.base} />
        </Link>{' '}
        {tool.policy.tier === 'pure' ? 'only computes' : 'only reads'}.{' '}
        {fields.length === 0 ? 'Run it.' : 'Change a value and run it.'}
      </p>
      <form
        className="mini"
        onSubmit={(event) => {
          event.preventDefault()
          run({ tool, input, userId: undefined })
        }}
      >
        {fields.map(({ name, kind, example }) => (
          <Field key={name} label={name}>
            {(control) => (
              <TextInput
                {...control}
                isMono
                inputMode={kind === 'number' ? 'decimal' : 'text'}
                value={values[name] ?? example}
                onChange={(event) => setValues({ ...values, [name]: event.currentTarget.value })}
              />
            )}
          </Field>
        ))}
        <Button
          submits
          writes
          icon="play"
          isBusy={phase.at === 'running'}
          kind={isDone ? 'plain' : 'primary'}
        >
          {isAnswered ? 'Run again' : 'Run'}
        </Button>
        {phase.at === 'answered' && <Outcome answer={phase.answer} />}
      </form>
      {phase.at === 'lost' && <Note tone="failed">The connection broke. Run it again when it is back.</Note>}
    </>
  )
}

const LONGEST_VALUE = 40

function Outcome({ answer }: { readonly answer: Answer }): ReactNode {
  const result = isRecord(answer.body) && isRecord(answer.body.result) ? answer.body.result : undefined
  const isGood = result?.success === true
  const value = isGood ? JSON.stringify(result.value) : messageIn(result ?? answer.body)
  return (
    <output className="mini-out">
      <b className={isGood ? 'num clip' : 'clip said'} title={value}>
        {value.length > LONGEST_VALUE ? `${value.slice(0, LONGEST_VALUE)}…` : value}
      </b>
      <span className="row meta">
        <StateMark state={isGood ? 'succeeded' : 'failed'} label={isGood ? 'Succeeded' : 'Failed'} />
        <span className="dim num">{formatDuration(answer.tookMs)}</span>
        {answer.record !== undefined && (
          <Link className="link" to="/calls/$record" params={{ record: answer.record }}>
            See it in Calls
          </Link>
        )}
      </span>
    </output>
  )
}

function messageIn(body: unknown): string {
  const error = isRecord(body) && isRecord(body.error) ? body.error : body
  return isRecord(error) && typeof error.message === 'string' ? error.message : 'It was refused.'
}
