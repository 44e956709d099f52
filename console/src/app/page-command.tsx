import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { connection } from '../api/connection.ts'
import { journalQuery } from '../api/journal.ts'
import { useSession } from '../api/session.ts'
import { useKey } from '../keyboard.ts'
import { CopyButton, IconButton } from '../parts/button.tsx'
import { CodeLine } from '../parts/code.tsx'
import { copyText } from '../parts/copy-text.ts'
import { formatClock, timeZone } from '../parts/format.ts'
import { Icon } from '../parts/icon.tsx'
import { visibleText } from '../parts/visible-text.ts'
import { createStore, useStore } from '../store.ts'
import { WORDS } from './words.tsx'

/*
 * The line below each page: its terminal command, the last journal check and the connection. Each page sets its command here. The
 * line itself sends no request.
 */

/** Sets the terminal command that does the same as the page with its current filters and form. */
export function usePageCommand(command: string): void {
  useEffect(() => {
    pageCommand.set(command)
    return () => pageCommand.set('')
  }, [command])
}

const pageCommand = createStore('')

/** Replaces `collet` with the command that people type on this server, for example `./collet`. */
export function useLocalCommand(command: string): string {
  const local = useSession()?.server.command ?? 'collet'
  return command.replace(/^collet(?= )/, () => local)
}

export function Command({ text }: { readonly text: string }): ReactNode {
  return <code>{visibleText(useLocalCommand(text))}</code>
}

export function CommandLine({ text }: { readonly text: string }): ReactNode {
  return <CodeLine text={useLocalCommand(text)} label={WORDS.command} />
}

export function PageFooter(): ReactNode {
  const command = useLocalCommand(useStore(pageCommand))
  const zone = useStore(timeZone)
  useKey('y', () => void copyText(command), command !== '')
  return (
    <footer className="echo">
      {command !== '' && (
        <>
          <span className="vh">{WORDS.terminalCommand}</span>
          <code className="clip">{visibleText(command)}</code>
          {command.length > MAX_LINE_LENGTH && <WholeCommand key={command} command={command} />}
          <CopyButton text={command} label={WORDS.copyCommand} />
        </>
      )}
      <span className="truth">
        {zone === 'utc' && <span>{WORDS.timesAreInUtc}</span>}
        <JournalStatus />
        <ConnectionStatus />
      </span>
    </footer>
  )
}

/** A longer command rarely fits in the line. */
const MAX_LINE_LENGTH = 80

/** A button that shows the whole of a command that is too long for the line. */
function WholeCommand({ command }: { readonly command: string }): ReactNode {
  const [isShown, setShown] = useState(false)
  return (
    <>
      <IconButton
        icon="eye"
        label={isShown ? WORDS.hideWholeCommand : WORDS.showWholeCommand}
        isPressed={isShown}
        onClick={() => setShown(!isShown)}
      />
      {isShown && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable with the keyboard.
        <pre tabIndex={0} role="region" aria-label={WORDS.wholeCommand}>
          {visibleText(command)}
        </pre>
      )}
    </>
  )
}

/** The last journal check, if Settings has loaded it. */
function JournalStatus(): ReactNode {
  const { data } = useQuery({ ...journalQuery, enabled: false })
  const last = data?.last
  if (last == null) return null
  return last.ok ? (
    <span>
      <Icon name="check" size={14} className="is-succeeded" />
      {WORDS.journalVerified(formatClock(last.at, { withSeconds: false }))}
    </span>
  ) : (
    <span className="is-failed">
      <Icon name="failed" size={14} />
      {WORDS.journalNotIntact}
    </span>
  )
}

function ConnectionStatus(): ReactNode {
  const state = useStore(connection)
  const now = useNow(state.isLost)
  if (!state.isLost)
    return (
      <span>
        <Icon name="dot" size={14} className="is-succeeded" />
        {WORDS.connected}
      </span>
    )
  const seconds = Math.max(0, Math.ceil((state.nextTryAt.getTime() - now) / 1000))
  return (
    <span className="is-parked">
      <Icon name="offline" size={14} />
      {WORDS.notConnectedTryingAgain(seconds === 0 ? 'now' : WORDS.inS(seconds))}
    </span>
  )
}

/** The current time in milliseconds, updated every second while `isTicking`. */
function useNow(isTicking: boolean): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    if (!isTicking) return undefined
    setNow(Date.now())
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [isTicking])
  return now
}
