import { Dialog as AriaDialog, DialogHeading } from '@ariakit/react'
import { type ReactNode, useId, useRef, useState } from 'react'
import { Button } from './button.tsx'
import { Field, TextInput } from './field.tsx'
import { Note } from './meaning.tsx'
import { messageOf } from './states.tsx'

/** Over the page, which stays as it is. `onClose` left out: it cannot be left without doing what it asks. */
export function Dialog({ title, isOpen, onClose, children }: DialogProps): ReactNode {
  return (
    <AriaDialog
      open={isOpen}
      onClose={() => onClose?.()}
      hideOnEscape={onClose !== undefined}
      hideOnInteractOutside={onClose !== undefined}
      className="dialog over"
      backdrop={<div className="backdrop" />}
      unmountOnHide
    >
      <DialogHeading>{title}</DialogHeading>
      {children}
    </AriaDialog>
  )
}

interface DialogProps {
  readonly title: ReactNode
  readonly isOpen: boolean
  readonly onClose?: (() => void) | undefined
  readonly children: ReactNode
}

/**
 * Before something that cannot be taken back: names the thing, the effect and its delay. `typed`: what has to be typed first. The
 * safe choice has the focus. It closes when the server has done it, and keeps open with the server's words when it has not.
 */
export function ConfirmDialog(props: ConfirmProps): ReactNode {
  const { title, children, typed, verb, keep = 'Keep it', isOpen, onClose, onConfirm } = props
  const [text, setText] = useState('')
  const [failure, setFailure] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const form = useId()
  const busy = useRef(false)
  const close = (): void => {
    setText('')
    setFailure(undefined)
    onClose()
  }
  const confirm = async (): Promise<void> => {
    if (busy.current) return
    busy.current = true
    setBusy(true)
    try {
      await onConfirm()
      close()
    } catch (error) {
      setFailure(error)
    } finally {
      busy.current = false
      setBusy(false)
    }
  }
  const isTyped = typed === undefined || text === typed
  return (
    <Dialog title={title} isOpen={isOpen} onClose={close}>
      <form
        id={form}
        className="dialog"
        onSubmit={(event) => {
          event.preventDefault()
          if (isTyped) void confirm()
        }}
      >
        <div className="soft">{children}</div>
        {typed !== undefined && (
          <Field
            label={
              <span>
                Type <b className="mono">{typed}</b> to confirm
              </span>
            }
          >
            {(control) => (
              <TextInput
                {...control}
                isMono
                value={text}
                onChange={(event) => setText(event.currentTarget.value)}
              />
            )}
          </Field>
        )}
        {failure !== undefined && <Note tone="failed">{messageOf(failure)}</Note>}
        <p className="row end">
          <Button onClick={close} data-autofocus="true">
            {keep}
          </Button>
          <Button
            kind="danger"
            submits
            writes
            isBusy={isBusy}
            off={isTyped ? undefined : `Type ${typed} first.`}
          >
            {verb}
          </Button>
        </p>
      </form>
    </Dialog>
  )
}

interface ConfirmProps {
  readonly title: ReactNode
  readonly children: ReactNode
  readonly typed?: string
  /** "Revoke key" */
  readonly verb: string
  readonly keep?: string
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly onConfirm: () => Promise<unknown>
}
