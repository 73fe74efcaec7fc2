# Headers that only the library's own sources see.
find_path(LOCKSTEP_STB_INCLUDE stb/stb_image.h REQUIRED)
find_path(LOCKSTEP_XXHASH_INCLUDE xxhash.h REQUIRED)
find_path(LOCKSTEP_JANSSON_INCLUDE jansson.h REQUIRED)
if(NOT LOCKSTEP_MINIMAL)
  find_path(LOCKSTEP_WEBP_INCLUDE webp/decode.h REQUIRED)
endif()
