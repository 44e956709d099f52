import type { ReactNode } from 'react'
import type { ClientConfig, Endpoint } from '../../api/server.ts'
import { CopyButton } from '../button.tsx'
import { Code } from '../code.tsx'
import { Segment } from '../tabs.tsx'
import { WORDS } from '../words.tsx'

/*
 * Shows the addresses of the server and the text to paste into a client. Used by several pages. The server supplies the texts.
 */

/** Each address has a copy button. `isShort` shows only their paths. */
export function Endpoints({ endpoints, isShort = false }: EndpointsProps): ReactNode {
  return (
    <ul className="endpoints">
      {endpoints.map(({ name, title, url }) => (
        <li key={name}>
          <span className="strong">{title}</span>
          <code className="grow clip" title={url}>
            {isShort ? new URL(url).pathname : url}
          </code>
          <CopyButton text={url} label={WORDS.copyAddress(title)} />
        </li>
      ))}
    </ul>
  )
}

interface EndpointsProps {
  readonly endpoints: readonly Endpoint[]
  readonly isShort?: boolean
}

/** Lets people choose the client to connect. */
export function ClientChoice({ clients, value, onChange }: ClientChoiceProps): ReactNode {
  const options = clients.map(({ name, title }) => ({ value: name, label: title }))
  return <Segment label={WORDS.client} value={value} options={options} onChange={onChange} />
}

interface ClientChoiceProps {
  readonly clients: readonly ClientConfig[]
  readonly value: string
  readonly onChange: (name: string) => void
}

/** The text to paste into the client, where it goes, and what to do next. */
export function ClientText({ client }: { readonly client: ClientConfig }): ReactNode {
  const { title, kind, place, text, command, link, after } = client
  return (
    <div className="stack-3">
      <Code
        key={title}
        text={text}
        label={WORDS.configurationFor(title)}
        head={WORDS.inWord(place)}
        isJson={kind === 'json'}
      />
      {link !== null && (
        <p>
          <a href={link}>{WORDS.add(title)}</a>
        </p>
      )}
      <p className="meta dim">
        {command !== null && command !== text && <>{WORDS.orRun(<code>{command}</code>)}</>}
        {kind === 'code' ? WORDS.before(<code>{after}</code>) : after}
      </p>
    </div>
  )
}
