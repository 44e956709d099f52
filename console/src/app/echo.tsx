import { type ReactNode, useEffect, useState } from 'react'
import { connection } from '../api/connection.ts'
import { useKey } from '../keyboard.ts'
import { CopyButton } from '../parts/button.tsx'
import { Icon } from '../parts/icon.tsx'
import { createStore, useStore } from '../store.ts'

/** The command that does in a terminal what the page shows; it follows filters and forms. */
export function useEcho(command: string): void {
  useEffect(() => {
    echo.set(command)
    return () => echo.set('')
  }, [command])
}

const echo = createStore('')

/** The line under each page: the same in a terminal, and whether what is shown is true now. */
export function EchoLine(): ReactNode {
  const command = useStore(echo)
  useKey('y', () => void navigator.clipboard.writeText(command), command !== '')
  return (
    <footer className="echo">
      {command !== '' && (
        <>
          <span className="vh">The same in a terminal:</span>
          <code className="clip">{command}</code>
          <CopyButton text={command} label="Copy command" />
        </>
      )}
      <span className="truth">
        <Connected />
      </span>
    </footer>
  )
}

function Connected(): ReactNode {
  const state = useStore(connection)
  const now = useSeconds(state.isLost)
  if (!state.isLost)
    return (
      <span>
        <Icon name="dot" size={14} className="is-succeeded" />
        Connected
      </span>
    )
  const seconds = Math.max(0, Math.ceil((state.nextTryAt.getTime() - now) / 1000))
  return (
    <span className="is-parked">
      <Icon name="offline" size={14} />
      Not connected, trying again {seconds === 0 ? 'now' : `in ${seconds} s`}
    </span>
  )
}

function useSeconds(isOn: boolean): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    if (!isOn) return undefined
    setNow(Date.now())
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [isOn])
  return now
}
