import { type ButtonHTMLAttributes, type ReactNode, useEffect, useState } from 'react'
import { connection } from '../api/connection.ts'
import { useStore } from '../store.ts'
import { copyText } from './copy-text.ts'
import { Icon, type IconName } from './icon.tsx'
import { WORDS } from './words.tsx'

/*
 * Buttons: with text, with only an icon, and for copying. Used by several pages. Each has a name for screen readers.
 */

export interface ButtonProps
  extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'className' | 'disabled' | 'type' | 'children'> {
  readonly children: ReactNode
  readonly kind?: 'plain' | 'primary' | 'danger' | 'quiet'
  readonly isSmall?: boolean
  readonly icon?: IconName
  /** Set while the server works: the button shows a spinner and cannot be pressed. */
  readonly isBusy?: boolean
  /** Why the button cannot be pressed now. It stays focusable, so that the reason can be read. */
  readonly off?: string | undefined
  /** The button changes something on the server, so it is disabled without a connection. */
  readonly writes?: boolean
  readonly submits?: boolean
  /** The button gets the focus when its dialog opens. */
  readonly 'data-autofocus'?: 'true'
  readonly className?: string
}

export function Button(props: ButtonProps): ReactNode {
  const { children, kind = 'plain', isSmall, icon, isBusy, off, writes, submits, className, ...rest } = props
  const { isLost } = useStore(connection)
  const reason = off ?? (writes === true && isLost ? WORDS.notConnectedButtonWorksAgain : undefined)
  const isOff = reason !== undefined || isBusy === true
  return (
    <button
      {...rest}
      type={submits === true ? 'submit' : 'button'}
      className={['btn', kind === 'plain' ? '' : kind, isSmall ? 'sm' : '', className ?? '']
        .filter((part) => part !== '')
        .join(' ')}
      aria-disabled={isOff}
      aria-busy={isBusy === true}
      title={reason ?? rest.title}
      onClick={(event) => {
        if (isOff) return event.preventDefault()
        rest.onClick?.(event)
      }}
    >
      {isBusy === true ? (
        <Icon name="running" size={14} className="spin" />
      ) : (
        icon !== undefined && <Icon name={icon} size={isSmall ? 12 : 14} />
      )}
      {children}
    </button>
  )
}

/** A button with only an icon; the label is its name and tooltip. */
export function IconButton({ icon, label, onClick, isPressed }: IconButtonProps): ReactNode {
  return (
    <button
      type="button"
      className="btn quiet icon"
      aria-label={label}
      title={label}
      aria-pressed={isPressed}
      onClick={onClick}
    >
      <Icon name={icon} size={14} />
    </button>
  )
}

interface IconButtonProps {
  readonly icon: IconName
  readonly label: string
  readonly onClick: () => void
  readonly isPressed?: boolean
}

const COPIED_MS = 1000
const REFUSED_MS = 5000
const REFUSED = WORDS.notCopiedBrowserRefusedSelect

/** Copies a text, then shows a tick for a second, or that copying failed. Without `children`, the button is an icon. */
export function CopyButton({ text, label, children }: CopyButtonProps): ReactNode {
  const [outcome, setOutcome] = useState<'none' | 'copied' | 'refused'>('none')
  useEffect(() => {
    if (outcome === 'none') return undefined
    const timer = setTimeout(() => setOutcome('none'), outcome === 'copied' ? COPIED_MS : REFUSED_MS)
    return () => clearTimeout(timer)
  }, [outcome])
  const copy = async (): Promise<void> => {
    setOutcome((await copyText(typeof text === 'string' ? text : text())) ? 'copied' : 'refused')
  }
  const icon = outcome === 'copied' ? 'check' : outcome === 'refused' ? 'alert' : 'copy'
  if (children === undefined) {
    const name = outcome === 'copied' ? WORDS.copied : outcome === 'refused' ? REFUSED : label
    return <IconButton icon={icon} label={name} onClick={() => void copy()} />
  }
  return (
    <Button
      kind="quiet"
      isSmall
      icon={icon}
      aria-label={outcome === 'copied' ? WORDS.copied2(label) : outcome === 'refused' ? REFUSED : label}
      title={outcome === 'refused' ? REFUSED : undefined}
      onClick={() => void copy()}
    >
      {children}
    </Button>
  )
}

interface CopyButtonProps {
  readonly text: string | (() => string)
  readonly label: string
  readonly children?: ReactNode
}
