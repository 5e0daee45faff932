// The one place that knows where Preact comes from: its classic builds set globals, so that no build step is needed.

export const { h, render, Fragment, createRef } = window.preact;
export const { useEffect, useLayoutEffect, useMemo, useRef, useState } = window.preactHooks;
