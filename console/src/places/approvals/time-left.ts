import { useEffect, useRef, useState } from 'react'
import { announce } from '../../app/announcer.tsx'

/*
 * The time left until an approval expires, and its announcements. Used by several pages.
 */

const MINUTE_MS = 60_000
/** A shorter remaining time is shown in amber. */
const SHORT_MS = 10 * MINUTE_MS
/** The remaining times that are announced. */
const SPOKEN_AT_MS = [5 * MINUTE_MS, MINUTE_MS] as const

interface TimeLeft {
  readonly ms: number
  readonly isOver: boolean
  readonly isShort: boolean
  /** `25 m`, `40 s` */
  readonly rough: string
  /** `25:38`, `2:05:00` */
  readonly exact: string
}

/** The time left until something ends. */
export function leftOf(until: string, nowMs: number): TimeLeft {
  const ms = Math.max(0, new Date(until).getTime() - nowMs)
  const seconds = Math.ceil(ms / 1000)
  const hours = Math.floor(seconds / 3600)
  const minutes = Math.floor(seconds / 60) % 60
  const two = (part: number): string => String(part).padStart(2, '0')
  return {
    ms,
    isOver: ms === 0,
    isShort: ms < SHORT_MS,
    rough: roughly(seconds),
    exact: `${hours > 0 ? `${hours}:${two(minutes)}` : minutes}:${two(seconds % 60)}`,
  }
}

function roughly(seconds: number): string {
  if (seconds < 60) return `${seconds} s`
  if (seconds < 7200) return `${Math.floor(seconds / 60)} m`
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`
}

/** The current time, updated at an interval. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs)
    return () => clearInterval(timer)
  }, [everyMs])
  return now
}

/** Announces when five minutes and one minute are left, unless less time was left when the page opened. */
export function useSpokenTime(left: TimeLeft): void {
  const before = useRef(left.ms)
  useEffect(() => {
    const passed = SPOKEN_AT_MS.find((mark) => before.current > mark && left.ms <= mark && left.ms > 0)
    before.current = left.ms
    if (passed === undefined) return
    const minutes = passed / MINUTE_MS
    announce(`This approval expires in ${minutes} ${minutes === 1 ? 'minute' : 'minutes'}`)
  }, [left.ms])
}
